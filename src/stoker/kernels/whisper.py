"""ctypes mirror of native/whisper.h: Whisper's decoder, and one step of it.

Only the structures; speech/whisper/native_step.py fills them from a model.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_void_p

from stoker.kernels.native import QMatrix


class LayerNorm(ctypes.Structure):
    _fields_ = (("weight", c_void_p), ("bias", c_void_p))


class BiasedMatrix(ctypes.Structure):
    _fields_ = (("w", QMatrix), ("bias", c_void_p), ("planes", c_int32), ("padding", c_int32))


class WhisperLayer(ctypes.Structure):
    _fields_ = (
        ("attention_norm", LayerNorm),
        ("cross_norm", LayerNorm),
        ("mlp_norm", LayerNorm),
        ("qkv", BiasedMatrix),
        ("out", BiasedMatrix),
        ("cross_q", BiasedMatrix),
        ("cross_out", BiasedMatrix),
        ("up", BiasedMatrix),
        ("down", BiasedMatrix),
    )


class WhisperDecoder(ctypes.Structure):
    _fields_ = (
        ("width", c_int64),
        ("num_heads", c_int64),
        ("num_layers", c_int64),
        ("layers", ctypes.POINTER(WhisperLayer)),
        ("positions", c_void_p),
        ("norm", LayerNorm),
        ("embedding", BiasedMatrix),
    )


class WhisperStep(ctypes.Structure):
    _fields_ = (
        ("num_tokens", c_int64),
        ("ids", c_void_p),
        ("positions", c_void_p),
        ("rows", c_void_p),
        ("own", c_void_p),
        ("window", c_void_p),
        ("cross", c_void_p),
        ("hidden", c_void_p),
        ("logits", c_void_p),
    )
