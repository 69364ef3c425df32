"""GGUF block formats turned into `QuantizedTensor`, exactly.

Each format stores a row as blocks of 32 or 256 weights with float16 scales inside the block.
Here codes, scales and biases are separated, and codes are packed so that neighbours share a
byte. No value changes: every product below is exact in float32 (11-bit scale, at most 7-bit
sub-scale, at most 6-bit code), so code * scale + bias rounds once, as the format's own formula.
Block layouts: ggml-common.h of ggml, and gguf/quants.py of its Python package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from stoker.kernels.source import QuantizedForm
from stoker.models.formats.mapped import Bytes
from stoker.models.weights import QuantizedTensor

_CHUNK_BYTES = 512 * 1024  # converted at a time, so that the passes over a chunk stay in cache
_MAX_HALF = 65504.0

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """How one ggml type becomes codes and groups."""

    elements: int  # weights per block
    nbytes: int  # bytes per block
    bits: int  # of our codes
    group_size: int
    codes: Callable[[Bytes, Bytes], None]  # blocks [n, nbytes] -> written to [n, elements * bits / 8]
    scales: Callable[[Bytes], tuple[Floats, Floats]]  # blocks -> scales, biases [n, groups per block]
    half: bool  # whether scale and bias are float16 values as long as they do not overflow


def form_of(kind: str) -> QuantizedForm:
    """What `to_quantized` gives; float32 scales instead where float16 would overflow."""
    form = FORMATS[kind]
    return QuantizedForm(form.bits, form.group_size, torch.float16 if form.half else torch.float32)


def to_quantized(raw: Bytes, kind: str, columns: int) -> QuantizedTensor:
    """raw: uint8 [N, bytes per row], `columns` = K."""
    form = FORMATS[kind]
    codes, scales, biases = _convert(raw, form, form_of(kind).scale_dtype)
    rows, groups = raw.shape[0], columns // form.group_size
    return QuantizedTensor(
        codes.reshape(rows, -1),
        scales.reshape(rows, groups),
        biases.reshape(rows, groups),
        form.bits,
        form.group_size,
    )


def _convert(
    raw: Bytes, form: BlockFormat, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    blocks = raw.reshape(-1, form.nbytes)
    codes = np.empty((blocks.shape[0], form.elements * form.bits // 8), np.uint8)
    scales = torch.empty(blocks.shape[0], form.elements // form.group_size, dtype=dtype)
    biases = torch.empty_like(scales)
    step = max(1, _CHUNK_BYTES // form.nbytes)
    for first in range(0, blocks.shape[0], step):
        chunk = slice(first, first + step)
        form.codes(blocks[chunk], codes[chunk])
        scale, bias = form.scales(blocks[chunk])
        if dtype == torch.float16 and not bool((np.abs(bias) <= _MAX_HALF).all()):
            # Scale and bias are the stored float16 values times a power of two, so this is the
            # only way they can be inexact.
            return _convert(raw, form, torch.float32)
        scales[chunk] = torch.from_numpy(scale)
        biases[chunk] = torch.from_numpy(bias)
    return torch.from_numpy(codes), scales, biases


# -- pieces of blocks ---------------------------------------------------------------------


def _field(blocks: Bytes, start: int, stop: int) -> Bytes:
    """Bytes [start, stop) of every block, contiguous. Copied as one opaque item per block:
    many times faster than element by element with a stride between."""
    width = stop - start
    item = np.dtype((np.void, width))
    opaque = np.ndarray((blocks.shape[0],), item, blocks.data, start, (blocks.strides[0],))
    return np.ascontiguousarray(opaque).view(np.uint8).reshape(-1, width)


def _half(blocks: Bytes, start: int) -> Floats:
    """The float16 at byte `start` of every block, as float32 [n, 1]."""
    raw = torch.from_numpy(_field(blocks, start, start + 2))
    result: Floats = raw.view(torch.float16).float().numpy()
    return result


# Eight codes at a time: bytes are handled as little-endian words, each byte on its own.
_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
_PAIRS = np.uint64(0x0303030303030303)
_ONES = np.uint64(0x0101010101010101)

Words = npt.NDArray[np.uint64]


def _words(codes: Bytes) -> Words:
    return codes.view("<u8")


def _shift(words: Words, right: int) -> Words:
    return words >> np.uint64(right)


def _pack_pairs(codes: Bytes, out: Bytes) -> None:
    """4-bit codes, one per byte [n, K] -> two per byte [n, K/2], the earlier one low."""
    pairs = codes.view("<u2")
    np.copyto(out, pairs | (pairs >> 4), casting="unsafe")


def _split_nibbles(packed: Bytes, out: Bytes) -> None:
    """Runs where byte i holds element i low and element i + width high -> neighbours share a byte.

    packed [m, width], out [m, 2, width/2]: first the low nibbles' codes, then the high ones'."""
    pairs = packed.view("<u2")
    low = pairs & 0x0F0F
    np.copyto(out[:, 0], low | (low >> 4), casting="unsafe")
    high = (pairs >> 4) & 0x0F0F
    np.copyto(out[:, 1], high | (high >> 4), casting="unsafe")


def _unpack_nibbles(packed: Words, out: Words) -> None:
    """The same runs, to one code per byte: packed [m, width/8], out [m, 2, width/8]."""
    np.bitwise_and(packed, _NIBBLES, out=out[:, 0])
    np.bitwise_and(_shift(packed, 4), _NIBBLES, out=out[:, 1])


def _two_bits(packed: Bytes) -> Bytes:
    """uint8 [n, 64] -> 2-bit codes [n, 256]: each half's 32 bytes hold 4 runs of 32."""
    words = _words(packed).reshape(-1, 4)
    runs = np.empty((words.shape[0], 4, 4), np.uint64)
    for run in range(4):
        runs[:, run] = _shift(words, 2 * run) & _PAIRS
    return runs.reshape(-1, 32).view(np.uint8)


def _bit_planes(packed: Bytes) -> Words:
    """uint8 [n, 32] -> bit b of every byte, for b = 0..7: words [n, 8, 4], a byte per bit."""
    words = _words(packed)
    planes = np.empty((words.shape[0], 8, 4), np.uint64)
    for plane in range(8):
        planes[:, plane] = _shift(words, plane) & _ONES
    return planes


# -- 32-weight formats --------------------------------------------------------------------


def _codes_q4(offset: int) -> Callable[[Bytes, Bytes], None]:
    def codes(blocks: Bytes, out: Bytes) -> None:
        _split_nibbles(_field(blocks, offset, offset + 16), out.reshape(-1, 2, 8))

    return codes


def _codes_q5(offset: int) -> Callable[[Bytes, Bytes], None]:
    def codes(blocks: Bytes, out: Bytes) -> None:
        words = _words(out)
        _unpack_nibbles(_words(_field(blocks, offset + 4, offset + 20)), words.reshape(-1, 2, 2))
        fifth = np.unpackbits(_field(blocks, offset, offset + 4), axis=1, bitorder="little")
        words |= _words(fifth) << np.uint64(4)

    return codes


def _codes_q8_0(blocks: Bytes, out: Bytes) -> None:
    # int8 -> unsigned with an offset of 128: the top bit flips.
    np.bitwise_xor(_field(blocks, 2, 34), 0x80, out=out)


def _centred(offset: float) -> Callable[[Bytes], tuple[Floats, Floats]]:
    """w = (code - offset) * d"""

    def scales(blocks: Bytes) -> tuple[Floats, Floats]:
        d = _half(blocks, 0)
        return d, d * np.float32(-offset)

    return scales


def _with_minimum(blocks: Bytes) -> tuple[Floats, Floats]:
    """w = code * d + m"""
    return _half(blocks, 0), _half(blocks, 2)


# -- 256-weight formats ("K"): scales of sub-blocks are small integers times the block's ----


def _scales_min_6bit(blocks: Bytes) -> tuple[Floats, Floats]:
    """Q4_K and Q5_K: d, dmin, then 8 six-bit scales and 8 six-bit minima in 12 bytes: the low
    6 bits of bytes 0-7 are scales 0-3 and minima 0-3; the others have 4 bits in bytes 8-11 and
    2 bits on top of bytes 0-7. w = code * (d * scale) - dmin * minimum."""
    packed = _field(blocks, 4, 16).reshape(-1, 3, 4)
    first, second, rest = packed[:, 0], packed[:, 1], packed[:, 2]
    scale = np.concatenate([first & 63, (rest & 15) | ((first >> 2) & 48)], axis=1)
    minimum = np.concatenate([second & 63, (rest >> 4) | ((second >> 2) & 48)], axis=1)
    return _half(blocks, 0) * scale, _half(blocks, 2) * -minimum.astype(np.float32)


def _codes_q4_k(blocks: Bytes, out: Bytes) -> None:
    _split_nibbles(_field(blocks, 16, 144).reshape(-1, 32), out.reshape(-1, 2, 16))


def _codes_q5_k(blocks: Bytes, out: Bytes) -> None:
    # Bit b of the 32 high bytes is the fifth bit of sub-block b.
    words = _words(out)
    _unpack_nibbles(_words(_field(blocks, 48, 176)).reshape(-1, 4), words.reshape(-1, 2, 4))
    words |= _bit_planes(_field(blocks, 16, 48)).reshape(-1, 32) << np.uint64(4)


def _codes_q2_k(blocks: Bytes, out: Bytes) -> None:
    _pack_pairs(_two_bits(_field(blocks, 16, 80)), out)


def _scales_q2_k(blocks: Bytes) -> tuple[Floats, Floats]:
    packed = _field(blocks, 0, 16)
    return _half(blocks, 80) * (packed & 15), _half(blocks, 82) * -(packed >> 4).astype(np.float32)


def _codes_q3_k(blocks: Bytes, out: Bytes) -> None:
    # The third bit lies in 32 bytes, bit b for run b of 32. Set means +4 before the offset of 4.
    third = _bit_planes(_field(blocks, 0, 32)).reshape(-1, 32) << np.uint64(2)
    codes = _words(_two_bits(_field(blocks, 32, 96))) | third
    _pack_pairs(codes.view(np.uint8), out)


def _scales_q3_k(blocks: Bytes) -> tuple[Floats, Floats]:
    """16 six-bit scales, offset 32: 4 low bits in bytes 0-7 (first 8 low, last 8 high), 2 high
    bits in bytes 8-11 (four planes of 4)."""
    packed = _field(blocks, 96, 108)
    low, high = packed[:, :8], packed[:, 8:]
    four = np.concatenate([low & 15, low >> 4], axis=1)
    two = np.concatenate([(high >> shift) & 3 for shift in (0, 2, 4, 6)], axis=1)
    scale = _half(blocks, 108) * ((four | (two << 4)).astype(np.float32) - 32)
    return scale, scale * np.float32(-4)


def _codes_q6_k(blocks: Bytes, out: Bytes) -> None:
    # Each half of 128: 64 bytes of nibbles (two runs of 32 low, then two high) and 32 bytes
    # of 2-bit tops, one run per bit pair.
    words = _words(out)
    _unpack_nibbles(_words(_field(blocks, 0, 128)).reshape(-1, 8), words.reshape(-1, 2, 8))
    words |= _words(_two_bits(_field(blocks, 128, 192))) << np.uint64(4)


def _scales_q6_k(blocks: Bytes) -> tuple[Floats, Floats]:
    scale = _half(blocks, 208) * _field(blocks, 192, 208).view(np.int8)
    return scale, scale * np.float32(-32)


FORMATS: Mapping[str, BlockFormat] = {
    "Q4_0": BlockFormat(32, 18, 4, 32, _codes_q4(2), _centred(8), half=True),
    "Q4_1": BlockFormat(32, 20, 4, 32, _codes_q4(4), _with_minimum, half=True),
    "Q5_0": BlockFormat(32, 22, 8, 32, _codes_q5(2), _centred(16), half=True),
    "Q5_1": BlockFormat(32, 24, 8, 32, _codes_q5(4), _with_minimum, half=True),
    "Q8_0": BlockFormat(32, 34, 8, 32, _codes_q8_0, _centred(128), half=True),
    "Q2_K": BlockFormat(256, 84, 4, 16, _codes_q2_k, _scales_q2_k, half=False),
    "Q3_K": BlockFormat(256, 110, 4, 16, _codes_q3_k, _scales_q3_k, half=False),
    "Q4_K": BlockFormat(256, 144, 4, 32, _codes_q4_k, _scales_min_6bit, half=False),
    "Q5_K": BlockFormat(256, 176, 8, 32, _codes_q5_k, _scales_min_6bit, half=False),
    "Q6_K": BlockFormat(256, 210, 8, 16, _codes_q6_k, _scales_q6_k, half=False),
}
