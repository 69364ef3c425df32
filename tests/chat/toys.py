"""Small tokenizers of each kind, built by hand: no files, no training."""

from __future__ import annotations

from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from transformers.convert_slow_tokenizer import bytes_to_unicode

from stoker.chat.tokenizer import Tokenizer
from stoker.core import TokenEvent

SCRIPT = "ď 你好 🌍 👩‍👩‍👧"  # two- to four-byte characters and a joined family
CHATML_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_level(words: tuple[str, ...] = (), special: list[str] | None = None) -> tokenizers.Tokenizer:
    """GPT-2's kind: the 256 bytes, plus a token for each of `words` (spaces as they are)."""
    alphabet = bytes_to_unicode()
    special = CHATML_TOKENS if special is None else special
    vocab = {token: i for i, token in enumerate(special)}
    for char in alphabet.values():
        vocab[char] = len(vocab)
    merges: list[tuple[str, str]] = []
    for word in words:
        spelled = "".join(alphabet[byte] for byte in word.encode())
        for size in range(2, len(spelled) + 1):
            if spelled[:size] not in vocab:
                vocab[spelled[:size]] = len(vocab)
                merges.append((spelled[: size - 1], spelled[size - 1]))
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return backend


def sentencepiece(
    prepend: bool = True, words: tuple[str, ...] = ("▁Hello", "▁world")
) -> tokenizers.Tokenizer:
    """Llama 2's kind (`prepend`) or Gemma's: metaspace, characters, and bytes for all others."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    vocab |= {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    merges: list[tuple[str, str]] = []
    for char in "▁Helowrdabcxyz好":
        vocab.setdefault(char, len(vocab))
    for word in words:
        for size in range(2, len(word) + 1):
            if word[:size] not in vocab:
                vocab[word[:size]] = len(vocab)
                merges.append((word[: size - 1], word[size - 1]))
    backend = tokenizers.Tokenizer(
        models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    replace = normalizers.Replace(" ", "▁")
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace]) if prepend else replace
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prepend else steps)
    backend.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in ("<unk>", "<s>", "</s>")]
    )
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return backend


def metaspace() -> tokenizers.Tokenizer:
    """The older SentencePiece conversion: metaspace as pre-tokenizer and as decoder."""
    vocab = {"<unk>": 0, "</s>": 1}
    for char in "▁Helowrd你好🌍ď":
        vocab.setdefault(char, len(vocab))
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    backend.decoder = decoders.Metaspace(prepend_scheme="always")
    backend.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<unk>", "</s>")])
    return backend


def chatml_tokenizer(words: tuple[str, ...] = (), **config: Any) -> Tokenizer:
    return Tokenizer(byte_level(words), {"eos_token": "<|im_end|>", "bos_token": "<|endoftext|>", **config})


def events(
    tokenizer: Tokenizer, pieces: list[str] | list[bytes], logprob: float | None = None
) -> list[TokenEvent]:
    """A script: one token per piece, each of which must be a token of the vocabulary."""
    by_bytes = {tokenizer.token_bytes(i): i for i in range(tokenizer.vocab_size)}
    encoded = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    return [TokenEvent(0, by_bytes[piece], logprob=logprob) for piece in encoded]
