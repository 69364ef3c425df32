"""Picking each row's next token from its logits: processors, filters, draw, log-probabilities.

The engine hands logits in and gets token ids back; nothing here knows of models, text or HTTP.
"""

from stoker.engine.sampling.row import SamplerRow
from stoker.engine.sampling.sampler import RowFailure, Sampled, sample, settle, takes_likeliest

__all__ = ["RowFailure", "Sampled", "SamplerRow", "sample", "settle", "takes_likeliest"]
