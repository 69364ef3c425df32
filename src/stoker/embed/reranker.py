"""Cross-encoders: a query and a document read together, one relevance between 0 and 1.

Two kinds: encoders with a classifier on top, and Qwen3-Reranker, a language model asked for
"yes" or "no".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from stoker.embed.encoder import Encoder, Head
from stoker.embed.families.decoders import DecoderEncoder
from stoker.embed.loading import EXACT, EncoderNumerics, build_encoder, build_head, is_encoder
from stoker.embed.packing import PackedBatch, Tokens
from stoker.embed.passes import Pass, make_passes
from stoker.embed.tokens import SentenceTokenizer
from stoker.errors import InvalidRequest, UnsupportedModel
from stoker.models.formats import open_checkpoint

# Qwen3-Reranker's own prompt, part of how the model was trained.
_QWEN_SYSTEM = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".'
)
_QWEN_BEFORE = f"<|im_start|>system\n{_QWEN_SYSTEM}<|im_end|>\n<|im_start|>user\n"
_QWEN_AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
QWEN_INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"


class PairFormat(Protocol):
    """How a query and a document become one sequence."""

    def pairs(
        self, query: str, documents: Sequence[str], instruction: str | None, max_tokens: int, truncate: bool
    ) -> list[Tokens]:
        """Documents are cut at their end where a pair is too long; without `truncate`, and for a query
        that leaves no room, InvalidRequest."""
        ...


@dataclass(frozen=True)
class Reranker:
    id: str
    format: PairFormat
    encoder: Encoder
    head: Head  # to [sequences, 1]: logits of relevance
    max_tokens: int
    device: str = "cpu"

    def tokenize(
        self, query: str, documents: Sequence[str], instruction: str | None = None, *, truncate: bool = True
    ) -> list[Tokens]:
        return self.format.pairs(query, documents, instruction, self.max_tokens, truncate)

    def passes(self, items: Sequence[Tokens]) -> list[Pass]:
        """The work that makes float32 [n, 1]."""
        return make_passes(
            self.encoder, items, self.device, lambda hidden, batch: self.head(hidden, batch).float().sigmoid()
        )


class EncoderPairs:
    """[CLS] query [SEP] document [SEP], as the tokenizer's own file says."""

    def __init__(self, tokenizer: SentenceTokenizer) -> None:
        self.tokenizer = tokenizer

    def pairs(
        self, query: str, documents: Sequence[str], instruction: str | None, max_tokens: int, truncate: bool
    ) -> list[Tokens]:
        if instruction is not None:
            raise InvalidRequest("this reranker takes no instruction", param="instruction")
        asked, *texts = self.tokenizer.ids([query, *documents])
        room = max_tokens - len(asked) - self.tokenizer.num_special_of_pair
        return [
            self.tokenizer.frame_pair(asked, cut) for cut in fit_documents(texts, room, max_tokens, truncate)
        ]


class QwenPairs:
    """The chat prompt of Qwen3-Reranker."""

    def __init__(self, tokenizer: SentenceTokenizer) -> None:
        self.tokenizer = tokenizer
        self.before, self.after = (tuple(ids) for ids in tokenizer.ids([_QWEN_BEFORE, _QWEN_AFTER]))

    def pairs(
        self, query: str, documents: Sequence[str], instruction: str | None, max_tokens: int, truncate: bool
    ) -> list[Tokens]:
        head = f"<Instruct>: {instruction or QWEN_INSTRUCTION}\n<Query>: {query}\n<Document>: "
        # The whole is one text to the tokenizer: a document may join with the space before it.
        texts = self.tokenizer.ids([head + document for document in documents])
        num_head = len(self.tokenizer.ids([head])[0])
        room = max_tokens - len(self.before) - len(self.after) - num_head
        rests = fit_documents([ids[num_head:] for ids in texts], room, max_tokens, truncate)
        return [
            Tokens((*self.before, *ids[:num_head], *rest, *self.after))
            for ids, rest in zip(texts, rests, strict=True)
        ]


def fit_documents(
    documents: Sequence[list[int]], room: int, max_tokens: int, truncate: bool
) -> list[list[int]]:
    """The documents' ids, cut to `room`. Raises InvalidRequest."""
    if room < 1:
        raise InvalidRequest(
            f"the query is too long: with it a pair may hold {max_tokens} tokens, "
            f"and no room is left for a document",
            param="query",
        )
    for index, ids in enumerate(documents):
        if len(ids) > room and not truncate:
            raise InvalidRequest(
                f"documents[{index}] is too long: it has {len(ids)} tokens, and the limit of {max_tokens} "
                f"for a pair leaves {room} beside the query; shorten it or set truncate",
                param="documents",
            )
    return [ids[:room] for ids in documents]


class YesOrNo:
    """log p(yes) - log p(no) after the last token, so that its sigmoid is p(yes) of the two."""

    def __init__(self, encoder: DecoderEncoder, yes: int, no: int) -> None:
        rows = encoder.decoder.head.rows(torch.tensor([yes, no]))
        self.weight = (rows[0] - rows[1]).float()

    def __call__(self, x: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        lasts = torch.tensor([first + length - 1 for first, length in batch.sequences()], device=x.device)
        return (x[lasts] @ self.weight)[:, None]


def load_reranker(
    id: str,
    path: Path,
    *,
    numerics: EncoderNumerics = EXACT,
    device: str = "cpu",
) -> Reranker:
    """Raises ModelNotFound, UnsupportedModel or CorruptModel."""
    if path.is_file():
        raise UnsupportedModel(f"{id} is a GGUF file; reranking needs the model's safetensors folder")
    checkpoint = open_checkpoint(path)
    backend, config = checkpoint.tokenizer()
    encoder = build_encoder(checkpoint, numerics, device)
    if is_encoder(checkpoint):
        tokenizer = SentenceTokenizer(backend, config)
        num_labels = _num_labels(checkpoint.config)
        if num_labels != 1:
            raise UnsupportedModel(f"{id} gives {num_labels} labels; a reranker gives one relevance")
        max_tokens = min(encoder.max_tokens, tokenizer.model_max_length or encoder.max_tokens)
        head = build_head(checkpoint, num_labels, device)
        return Reranker(id, EncoderPairs(tokenizer), encoder, head, max_tokens, device)
    tokenizer = SentenceTokenizer(backend, config)
    yes, no = (ids[0] if len(ids) == 1 else None for ids in tokenizer.ids(["yes", "no"]))
    if yes is None or no is None or not isinstance(encoder, DecoderEncoder):
        raise UnsupportedModel(f"{id} is no reranker that stoker knows: it has no tokens for yes and no")
    yes_or_no = YesOrNo(encoder, yes, no)
    return Reranker(id, QwenPairs(tokenizer), encoder, yes_or_no, encoder.max_tokens, device)


def _num_labels(config: dict[str, object]) -> int:
    labels = config.get("id2label")
    if isinstance(labels, dict):
        return len(labels)
    given = config.get("num_labels")
    return given if isinstance(given, int) else 2
