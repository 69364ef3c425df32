"""Random encoders of a few thousand weights, saved as transformers saves them, and what
transformers itself computes with them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors

VOCABULARY = 120
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "yes", "no", *(f"w{n}" for n in range(VOCABULARY - 6))]
PAD, UNK, CLS, SEP = range(4)

# Uneven lengths, some equal, one longer than every window here.
SEQUENCES: tuple[tuple[int, ...], ...] = (
    (CLS, 7, 8, 9, SEP),
    (CLS, SEP),
    (CLS, 11, 12, 13, SEP),
    (CLS, *range(20, 60), SEP),
    (CLS, 50, SEP),
)


@dataclass(frozen=True)
class Case:
    """One architecture: a reference model with random weights."""

    id: str
    make: Callable[[], torch.nn.Module]


def _bert(**more: Any) -> torch.nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**_sizes(), **more))


def _sizes(**more: Any) -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "pad_token_id": PAD,
        "initializer_range": 0.3,
    } | more


def _xlm_roberta() -> torch.nn.Module:
    from transformers import XLMRobertaConfig, XLMRobertaModel

    return XLMRobertaModel(XLMRobertaConfig(**_sizes(pad_token_id=1, type_vocab_size=1)))


def _modernbert() -> torch.nn.Module:
    from transformers import ModernBertConfig, ModernBertModel

    ends = {"bos_token_id": CLS, "cls_token_id": CLS, "eos_token_id": SEP, "sep_token_id": SEP}
    return ModernBertModel(ModernBertConfig(**_sizes(num_hidden_layers=4), **ends, local_attention=16))


def _nomic_bert() -> torch.nn.Module:
    from transformers import NomicBertConfig, NomicBertModel

    return NomicBertModel(NomicBertConfig(**_sizes()))


def _qwen3() -> torch.nn.Module:
    from transformers import Qwen3Config, Qwen3Model

    return Qwen3Model(Qwen3Config(**_sizes(), num_key_value_heads=2, head_dim=16))


def _embedding_gemma() -> torch.nn.Module:
    from transformers import Gemma3TextConfig, Gemma3TextModel

    return Gemma3TextModel(
        Gemma3TextConfig(
            **_sizes(),
            num_key_value_heads=1,
            head_dim=16,
            query_pre_attn_scalar=16,
            sliding_window=12,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            use_bidirectional_attention=True,
        )
    )


CASES = (
    Case("bert", _bert),
    Case("xlm-roberta", _xlm_roberta),
    Case("modernbert", _modernbert),
    Case("nomic-bert", _nomic_bert),
    Case("qwen3", _qwen3),
    Case("embedding-gemma", _embedding_gemma),
)


def save_reference(case: Case, folder: Path) -> torch.nn.Module:
    """Writes the case's model into `folder` and returns it, with weights of every kind at random."""
    torch.manual_seed(0)
    model = case.make().eval()
    randomize(model)
    model.save_pretrained(folder)
    word_tokenizer(folder)
    return model


def randomize(model: torch.nn.Module) -> None:
    """Biases and norms too, which start as zeros and ones and would hide a mistake."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1 or "embed" in name:
                parameter += torch.randn_like(parameter) * 0.2


def reference_states(model: torch.nn.Module, ids: Sequence[int]) -> torch.Tensor:
    """One sequence alone: [length, hidden]."""
    with torch.inference_mode():
        states: torch.Tensor = model(input_ids=torch.tensor([list(ids)])).last_hidden_state[0]
    return states


def word_tokenizer(folder: Path, *, max_length: int | None = None) -> None:
    """Words between spaces, in a frame of [CLS] and [SEP]."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.WordLevel({word: id for id, word in enumerate(WORDS)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    write(folder / "tokenizer_config.json", config | ({"model_max_length": max_length} if max_length else {}))


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def make_embedding_model(folder: Path, case_id: str = "bert", **files: Any) -> Path:
    """A model folder as sentence-transformers writes it: mean pooling, normalized, 40 tokens at most."""
    save_reference(next(case for case in CASES if case.id == case_id), folder)
    stages = ("Transformer", "Pooling", "Normalize")
    modules = [
        {
            "idx": index,
            "name": str(index),
            "path": "" if not index else f"{index}_{stage}",
            "type": f"sentence_transformers.models.{stage}",
        }
        for index, stage in enumerate(stages)
    ]
    write(folder / "modules.json", modules)
    write(
        folder / "1_Pooling/config.json", {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    )
    write(folder / "sentence_bert_config.json", {"max_seq_length": 40, "do_lower_case": False})
    for name, content in files.items():
        write(folder / f"{name}.json", content)
    return folder


def make_cross_encoder(folder: Path, kind: str = "bert") -> torch.nn.Module:
    """A classifier of one label over pairs; the reference model."""
    import transformers as hf

    torch.manual_seed(0)
    if kind == "bert":
        config: Any = hf.BertConfig(**_sizes(), num_labels=1)
        model: Any = hf.BertForSequenceClassification(config)
    elif kind == "xlm-roberta":
        config = hf.XLMRobertaConfig(**_sizes(pad_token_id=1, type_vocab_size=1), num_labels=1)
        model = hf.XLMRobertaForSequenceClassification(config)
    else:
        ends = {"bos_token_id": CLS, "cls_token_id": CLS, "eos_token_id": SEP, "sep_token_id": SEP}
        config = hf.ModernBertConfig(**_sizes(), **ends, local_attention=16, num_labels=1)
        config.classifier_pooling = "mean"
        model = hf.ModernBertForSequenceClassification(config)
    model.eval()
    randomize(model)
    model.save_pretrained(folder)
    word_tokenizer(folder)
    return model  # type: ignore[no-any-return]


def run_passes(passes: Sequence[Any], num_items: int) -> list[list[float]]:
    """Drives passes to their end without a lane."""
    rows: list[list[float]] = [[] for _ in range(num_items)]
    for one in passes:
        while True:
            try:
                next(one.work)
            except StopIteration as end:
                for index, row in zip(one.at, end.value.tolist(), strict=True):
                    rows[index] = row
                break
    return rows
