"""Reads a folder or a GGUF file and says what model it is. Headers and configs only, never tensor data.

Nothing here raises for a damaged model: it becomes an `Unusable` with the reason, so that one bad
folder cannot hide the others.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from stoker.errors import CorruptModel
from stoker.library.entry import Found, ModelEntry, ModelFormat, ModelKind, Origin, Unusable
from stoker.library.gguf_header import FILE_TYPE_LABELS, GgufHeader, read_gguf_header
from stoker.library.quant_labels import GgufName, is_side_file, label_bits, parse_gguf_name
from stoker.library.safetensors_header import find_shards, read_tensor_names

MANIFEST_NAME = "stoker.json"

_TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")
_LANGUAGE_MODEL_SUFFIXES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForImageTextToText")
_GGUF_SIDE_ARCHITECTURES = {"clip", "imatrix"}
_GGUF_EMBEDDING_ARCHITECTURES = {"bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "gemma-embedding"}
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "vocabulary.txt",
                    "vocabulary.json", "spiece.model", "sentencepiece.bpe.model", "tekken.json")  # fmt: skip
_MLX_NPZ = "weights.npz"
_CT2_WHISPER_MAGIC = b"\x06\x00\x00\x00\x0c\x00WhisperSpec\x00"


def inspect_folder(folder: Path, origin: Origin) -> list[Found]:
    """Every model in `folder`: the one its config.json describes, and each GGUF file.

    An empty list means that nothing here looks like a model.
    """
    found: list[Found] = []
    if (folder / "config.json").is_file():
        found += _guarded(folder, origin.id, lambda: _inspect_checkpoint(folder, origin))
    for path, name in _name_ggufs(folder, origin, bool(found)):
        found += inspect_gguf(path, origin, name)
    return found


def _name_ggufs(folder: Path, origin: Origin, needs_suffix: bool) -> list[tuple[Path, str]]:
    """Each GGUF model of `folder` with its id: the folder's own where that is enough, else `:label`."""
    # Repositories keep split files in subfolders; elsewhere a subfolder is somebody else's.
    paths = folder.rglob("*.gguf") if origin.source == "hub" else folder.glob("*.gguf")
    named = [(path, parse_gguf_name(path.relative_to(folder).as_posix())) for path in sorted(paths)]
    heads = [(path, name) for path, name in named if name.shard == 1 and not is_side_file(path.name)]
    labels = Counter(name.label for _, name in heads)
    if len(heads) == 1 and not origin.label_quants and not needs_suffix:
        return [(heads[0][0], origin.id)]
    suffixes = [name.label if name.label and labels[name.label] == 1 else name.stem for _, name in heads]
    return [(path, f"{origin.id}:{suffix}") for (path, _), suffix in zip(heads, suffixes, strict=True)]


def inspect_gguf(path: Path, origin: Origin, name: str) -> list[Found]:
    """The model in one GGUF file (the first, when it is split); empty for projectors and the like."""
    return _guarded(path, name, lambda: _inspect_gguf(path, origin, name))


def _guarded(path: Path, name: str, read: Callable[[], Found | None]) -> list[Found]:
    try:
        entry = read()
    except CorruptModel as error:
        entry = Unusable(name, path, error.message)
    except OSError as error:
        entry = Unusable(name, path, f"cannot be read: {error.strerror or error}")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        entry = Unusable(name, path, f"its metadata makes no sense: {error}")
    return [] if entry is None else [entry]


def _inspect_checkpoint(folder: Path, origin: Origin) -> Found | None:
    config = read_json_object(folder / "config.json")
    if _is_ct2_whisper(folder):
        return _entry(folder, origin, [folder / "model.bin"], "ctranslate2", "speech", "whisper", {})
    shards = find_shards(folder)
    is_whisper = config.get("model_type") == "whisper"
    if not shards and is_whisper and (folder / _MLX_NPZ).is_file():
        return _entry(folder, origin, [folder / _MLX_NPZ], "mlx", "speech", "whisper", {})
    if not shards:
        return _without_weights(folder, origin)
    names = [name for shard in shards for name in read_tensor_names(shard)]
    # MLX's Whisper comes without a tokenizer; another checkpoint's serves.
    needs_tokenizer = origin.source == "hub" and not is_whisper
    if needs_tokenizer and not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        return Unusable(origin.id, folder, "has no tokenizer (download not finished?)")
    text = _object(config.get("text_config")) or config
    is_mlx = isinstance(config.get("quantization"), dict)
    quant = _object(config.get("quantization" if is_mlx else "quantization_config"))
    return _entry(
        folder,
        origin,
        shards,
        "mlx" if is_mlx else "safetensors",
        _config_kind(folder, config, origin.id),
        str(config.get("model_type") or "unknown"),
        {
            "quant_bits": _integer(quant.get("bits")) or (4 if quant.get("load_in_4bit") else None),
            "quant_group_size": _integer(quant.get("group_size")),
            "context_length": _integer(text.get("max_position_embeddings")),
            "vision": "vision_config" in config,
            "audio": "audio_config" in config and any("audio" in name for name in names),
        },
    )


def _without_weights(folder: Path, origin: Origin) -> Found | None:
    if any(folder.glob("*.gguf")):  # the config only accompanies the GGUF files
        return None
    if any(folder.glob("pytorch_model*.bin")):
        return Unusable(origin.id, folder, "has only PyTorch .bin weights; stoker reads safetensors and GGUF")
    return Unusable(origin.id, folder, "has a config.json but no weights (download not finished?)")


def _config_kind(folder: Path, config: dict[str, Any], name: str) -> ModelKind:
    model_type = str(config.get("model_type") or "")
    architectures = config.get("architectures")
    names = [str(name) for name in architectures] if isinstance(architectures, list) else []
    if model_type == "whisper":
        return "speech"
    # Qwen3-Reranker is a language model that only its name and its prompt tell from a chat model.
    if "rerank" in name.casefold() or (names and all(_gives_one_score(config, one) for one in names)):
        return "rerank"
    if (folder / "modules.json").is_file():  # a sentence-transformers pipeline around any architecture
        return "embedding"
    if config.get("is_encoder_decoder"):
        return "other"
    if not names or any(name.endswith(_LANGUAGE_MODEL_SUFFIXES) for name in names):
        return "chat" if _has_template(folder) else "text"
    # A bare encoder of text; image and audio encoders have no vocabulary.
    is_text = "vocab_size" in config and "vision_config" not in config
    return "embedding" if is_text and all(name.endswith("Model") for name in names) else "other"


def _gives_one_score(config: dict[str, Any], architecture: str) -> bool:
    """A classifier of one label: how relevant the second text is to the first."""
    labels = config.get("id2label")
    count = len(labels) if isinstance(labels, dict) else config.get("num_labels")
    return architecture.endswith("ForSequenceClassification") and count == 1


def _has_template(folder: Path) -> bool:
    if any((folder / name).is_file() for name in _TEMPLATE_FILES):
        return True
    try:
        return bool(read_json_object(folder / "tokenizer_config.json").get("chat_template"))
    except (OSError, CorruptModel):
        return False


def _is_ct2_whisper(folder: Path) -> bool:
    try:
        with (folder / "model.bin").open("rb") as file:
            return file.read(len(_CT2_WHISPER_MAGIC)) == _CT2_WHISPER_MAGIC
    except OSError:
        return False


def _inspect_gguf(path: Path, origin: Origin, name: str) -> Found | None:
    parsed = parse_gguf_name(path.name)
    shards = _gguf_shards(path, parsed)
    missing = [shard.name for shard in shards if not shard.is_file()]
    if missing:
        return Unusable(name, path, f"{len(missing)} of {len(shards)} parts are missing, first {missing[0]}")
    headers = [read_gguf_header(shard) for shard in shards]
    header = headers[0]
    architecture = header.text("general.architecture")
    if architecture in _GGUF_SIDE_ARCHITECTURES or header.text("general.type") not in (None, "model"):
        return None
    if architecture is None:
        return Unusable(name, path, "its GGUF metadata names no architecture")
    if not any(part.num_tensors for part in headers):
        return None  # a vocabulary without weights
    label = parsed.label or FILE_TYPE_LABELS.get(header.integer("general.file_type") or 0)
    facts = {
        "quant_bits": label_bits(label),
        "quant_label": label,
        "context_length": header.integer(f"{architecture}.context_length"),
    }
    return _entry(path, origin, shards, "gguf", _gguf_kind(header, architecture), architecture, facts, name)


def _gguf_shards(path: Path, parsed: GgufName) -> list[Path]:
    if parsed.num_shards == 1:
        return [path]
    first = "-00001-of-"
    return [
        path.with_name(path.name.replace(first, f"-{n:05d}-of-")) for n in range(1, parsed.num_shards + 1)
    ]


def _gguf_kind(header: GgufHeader, architecture: str) -> ModelKind:
    if architecture in _GGUF_EMBEDDING_ARCHITECTURES or f"{architecture}.pooling_type" in header.metadata:
        return "embedding"
    if architecture == "whisper":
        return "speech"
    return "chat" if header.text("tokenizer.chat_template") else "text"


def _entry(
    path: Path,
    origin: Origin,
    weights: list[Path],
    format: ModelFormat,
    kind: ModelKind,
    architecture: str,
    facts: dict[str, Any],
    name: str | None = None,
) -> ModelEntry:
    stats = [weight.stat() for weight in weights]
    beside = 0 if path.is_file() else sum(_size(file) for file in _small_files(path, weights))
    return ModelEntry(
        id=name or origin.id,
        path=path,
        format=format,
        kind=kind,
        architecture=architecture,
        size_bytes=sum(stat.st_size for stat in stats) + beside,
        source=origin.source,
        modified=max(stat.st_mtime for stat in stats),
        weights=tuple(weights),
        revision=origin.revision,
        canonical=origin.canonical,
        **facts,
    )


def _small_files(folder: Path, weights: list[Path]) -> Iterable[Path]:
    suffixes = {".json", ".txt", ".model", ".jinja"}
    return (file for file in folder.iterdir() if file.suffix in suffixes and file not in weights)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in `path`. Raises CorruptModel when it is something else."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CorruptModel(f"{path.name} is not valid JSON") from error
    if not isinstance(value, dict):
        raise CorruptModel(f"{path.name} does not hold a JSON object")
    return value


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
