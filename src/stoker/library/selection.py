"""Which files of a repository are worth fetching. Looks at names and sizes only."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stoker.errors import ModelNotFound, UnsupportedModel
from stoker.library.entry import human_size
from stoker.library.quant_labels import is_side_file, parse_gguf_name

_INDEX = "model.safetensors.index.json"
_NUMBERED = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
_SMALL_FILES = {
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model",
    "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "spiece.model",
    "sentencepiece.bpe.model", "tekken.json", "chat_template.jinja", "chat_template.json",
    "preprocessor_config.json", "processor_config.json", "modules.json", "sentence_bert_config.json",
    "config_sentence_transformers.json", "vocabulary.txt", "vocabulary.json",
}  # fmt: skip
_LICENSE_FILES = {"LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE", "NOTICE.md", "NOTICE.txt"}
# One numbered folder per stage of a sentence-transformers pipeline: 1_Pooling, 2_Dense.
_STAGE_FILE = re.compile(r"\d+_[A-Za-z]+/(config\.json|model\.safetensors)")

# Without a wish: good quality for the size first, then what else there is.
_QUANT_PREFERENCE = ("Q4_K_M", "Q4_K_S", "Q4_0", "Q4_1", "Q5_K_M", "Q5_K_S", "Q5_0", "Q5_1", "Q6_K", "Q8_0",
                     "Q3_K_M", "Q3_K_L", "Q3_K_S", "Q2_K", "BF16", "F16", "F32")  # fmt: skip


def select_files(repo_id: str, sizes: Mapping[str, int | None], quant: str | None = None) -> list[str]:
    """The names to fetch, in the repository's order.

    sizes  file name -> bytes, as the hub lists them
    quant  a GGUF label (`Q4_K_M`) or file name; None = safetensors when there are any, else a
           middling GGUF
    Raises ModelNotFound when there is no such quantization, UnsupportedModel when there are no
    weights in a format stoker reads.
    """
    weights = [] if quant else _dense_weights(sizes)
    if not weights:
        weights = _gguf_weights(repo_id, sizes, quant)
    if not weights:
        kinds = sorted({name.rpartition(".")[2] for name in sizes if "." in name})
        raise UnsupportedModel(
            f"{repo_id} has no weights that stoker reads (safetensors, GGUF or CTranslate2 Whisper); "
            f"it holds files of these kinds: {', '.join(kinds) or 'none'}"
        )
    wanted = _SMALL_FILES | _LICENSE_FILES | set(weights)
    return [name for name in sizes if name in wanted or _STAGE_FILE.fullmatch(name)]


def _dense_weights(sizes: Mapping[str, int | None]) -> list[str]:
    if _INDEX in sizes and (shards := [name for name in sizes if _NUMBERED.fullmatch(name)]):
        return [*shards, _INDEX]
    if "model.safetensors" in sizes:
        return ["model.safetensors"]
    plain = [name for name in sizes if name.endswith(".safetensors") and "/" not in name]
    chosen = [name for name in plain if not name.startswith(("adapter", "consolidated"))]
    if chosen:
        return [*chosen, _INDEX] if _INDEX in sizes else chosen
    if "weights.npz" in sizes:  # MLX's Whisper
        return ["weights.npz"]
    vocabulary = {"vocabulary.txt", "vocabulary.json"} & sizes.keys()
    return ["model.bin"] if "model.bin" in sizes and vocabulary else []


def _gguf_weights(repo_id: str, sizes: Mapping[str, int | None], quant: str | None) -> list[str]:
    models = _gguf_models(sizes)
    if quant is None:
        by_label = {label: names for (label, _), names in reversed(models.items())}
        order = [label for label in _QUANT_PREFERENCE if label in by_label] or list(by_label)
        return by_label[order[0]] if order else []
    wanted = quant.casefold().removesuffix(".gguf")
    matches = [
        names for (label, stem), names in models.items() if wanted in (label.casefold(), stem.casefold())
    ]
    if len(matches) == 1:
        return matches[0]
    if not models:
        raise ModelNotFound(f"{repo_id} has no GGUF files, so {quant} cannot be chosen")
    offers = [
        f"{stem if matches else label} ({human_size(sum(sizes[name] or 0 for name in names))})"
        for (label, stem), names in models.items()
    ]
    problem = "several models in" if matches else "no"
    raise ModelNotFound(f"{repo_id} has {problem} {quant}; choose one of " + ", ".join(offers))


def _gguf_models(sizes: Mapping[str, int | None]) -> dict[tuple[str, str], list[str]]:
    """File names by (label, stem): the parts of a split model come together."""
    models: dict[tuple[str, str], list[str]] = {}
    for name in sizes:
        if name.lower().endswith(".gguf") and not is_side_file(name):
            parsed = parse_gguf_name(name)
            models.setdefault((parsed.label or parsed.stem, parsed.stem), []).append(name)
    return models
