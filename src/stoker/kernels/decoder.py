"""ctypes mirror of native/decoder.h: the description of a whole decoder, and one step of it.

Only the structures and the call; models/native_decoder.py fills them from a model.
"""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int32, c_int64, c_void_p

from stoker.kernels.native import LayerCache, QMatrix


class Norm(ctypes.Structure):
    _fields_ = (("weight", c_void_p), ("eps", c_float), ("padding", c_int32))


class Part(ctypes.Structure):
    _fields_ = (("w", QMatrix), ("bias", c_void_p), ("offset", c_int64))


class Projection(ctypes.Structure):
    _fields_ = (("parts", Part * 3), ("num_parts", c_int32), ("planes", c_int32))


class DecoderLayer(ctypes.Structure):
    _fields_ = (
        ("attention_norm", Norm),
        ("attention_post_norm", Norm),
        ("mlp_norm", Norm),
        ("mlp_post_norm", Norm),
        ("head_norm", Norm),
        ("q_norm", Norm),
        ("k_norm", Norm),
        ("qkv", Projection),
        ("output", Projection),
        ("gate_up", Projection),
        ("down", Projection),
        ("cache", LayerCache),
        ("rope", c_int32),
        ("activation", c_int32),
        ("residual_scale", c_float),
        ("padding", c_int32),
    )


class Rope(ctypes.Structure):
    _fields_ = (("frequencies", c_void_p), ("half", c_int64), ("factor", c_float), ("padding", c_int32))


class Decoder(ctypes.Structure):
    _fields_ = (
        ("hidden", c_int64),
        ("num_heads", c_int64),
        ("intermediate", c_int64),
        ("num_layers", c_int64),
        ("layers", ctypes.POINTER(DecoderLayer)),
        ("ropes", ctypes.POINTER(Rope)),
        ("num_ropes", c_int64),
        ("embedding", QMatrix),
        ("norm", Norm),
        ("head", Projection),
        ("embedding_scale", c_float),
        ("logit_scale", c_float),
        ("logit_softcap", c_float),
        ("padding", c_int32),
    )


class DecoderStep(ctypes.Structure):
    _fields_ = (
        ("num_tokens", c_int64),
        ("num_logits", c_int64),
        ("token_ids", c_void_p),
        ("positions", c_void_p),
        ("logits_at", c_void_p),
        ("rows", c_void_p),
        ("logits", c_void_p),
        ("best", c_void_p),
        ("peaks", c_void_p),
    )
