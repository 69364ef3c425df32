"""Language models as encoders: Qwen3-Embedding, EmbeddingGemma, and any decoder of models/families.

The decoder's own layers run over attention that keeps nothing: each sequence is complete in its
batch. EmbeddingGemma is a Gemma 3 whose tokens look in both directions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch

from stoker.embed.encoder import Steps
from stoker.embed.packing import PackedBatch, Run, attend
from stoker.errors import UnsupportedModel
from stoker.kv.base import LayerSpec
from stoker.models import load_model
from stoker.models.layers.attention import Step
from stoker.models.layers.decoder import Decoder
from stoker.models.weights import Checkpoint, MatrixSource, Weight

# What the bare model in `architectures` is called as a language model.
_AS_LANGUAGE_MODEL = {"gemma3_text": "Gemma3ForCausalLM"}


class UncachedAttention:
    """The part of a KV layout that a decoder layer uses; the plan is the batch's runs."""

    def __init__(self, layers: tuple[LayerSpec, ...], *, causal: bool) -> None:
        self.layers = layers
        self.causal = causal

    def attend(
        self,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        plan: tuple[Run, ...],
        *,
        scale: float,
        softcap: float | None = None,
    ) -> torch.Tensor:
        if softcap is not None:
            raise UnsupportedModel("Embeddings from a model with soft-capped attention are not supported.")
        reach = self.layers[layer].window
        return attend(q, k, v, plan, scale=scale, causal=self.causal, reach=reach)


class DecoderEncoder:
    # Its products run on the native kernels' own team of threads, which serves one caller at a time.
    is_parallel = False

    def __init__(self, decoder: Decoder, *, causal: bool) -> None:
        self.decoder = decoder
        self.attention: Any = UncachedAttention(decoder.facts.layers, causal=causal)
        self.hidden_size = decoder.embedding.in_features
        self.max_tokens = decoder.facts.max_context
        # About: attention, and a gated feed-forward of three times the width.
        self.layer_parameters = 14 * self.hidden_size * self.hidden_size
        self.nbytes = decoder.nbytes

    def steps(self, batch: PackedBatch) -> Steps:
        decoder = self.decoder
        angles = tuple(rope.at(batch.positions) for rope in decoder.ropes)
        step = Step(self.attention, batch.runs, angles)
        x = decoder.embedding.rows(batch.token_ids).float()
        if decoder.embedding_scale != 1.0:
            x = x * decoder.embedding_scale
        for layer in decoder.layers:
            yield
            x = layer.forward(x, step)
        return decoder.norm(x).float()


class _AsLanguageModel:
    """A checkpoint of the bare model under the names its language model has."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._inner = checkpoint
        self._is_bare = "embed_tokens.weight" in checkpoint
        config = dict(checkpoint.config)
        model_type = str(config.get("model_type"))
        if model_type in _AS_LANGUAGE_MODEL:
            config["architectures"] = [_AS_LANGUAGE_MODEL[model_type]]
        elif self._is_bare:
            config.pop("architectures", None)  # then the model type decides
        if config.pop("use_bidirectional_attention", None) and config.get("sliding_window"):
            # The window counts both sides, ours one side and the token itself.
            config["sliding_window"] = config["sliding_window"] // 2 + 1
        if self._is_bare:
            config["tie_word_embeddings"] = True  # there is no output head to read
        self.config = config
        self._names = {f"model.{name}" if self._is_bare else name for name in checkpoint.names()}

    def _theirs(self, name: str) -> str:
        return name.removeprefix("model.") if self._is_bare else name

    def names(self) -> Iterable[str]:
        return self._names

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def get(self, name: str) -> Weight:
        return self._inner.get(self._theirs(name))

    def matrix(self, name: str) -> MatrixSource:
        return self._inner.matrix(self._theirs(name))


def build(
    checkpoint: Checkpoint,
    dtype: torch.dtype,
    device: str,
    *,
    quantize: Literal[4, 8] | None = None,
    int8_planes: int = 0,
) -> DecoderEncoder:
    causal = not checkpoint.config.get("use_bidirectional_attention")
    decoder = load_model(
        _AsLanguageModel(checkpoint), dtype, device, quantize=quantize, int8_planes=int8_planes
    )
    return DecoderEncoder(decoder, causal=causal)
