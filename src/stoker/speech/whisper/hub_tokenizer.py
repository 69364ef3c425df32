"""The tokenizer for checkpoints that come without one: MLX's, and some converted by CTranslate2.

Whisper has three: English-only, multilingual, and multilingual with Cantonese (large-v3). Any checkpoint on
this machine that has the right one will do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import tokenizers

from stoker.errors import CorruptModel
from stoker.library.paths import hub_cache_dir, store_dir
from stoker.speech.whisper.dims import Dimensions

_NUM_TIMESTAMPS = 1501
_EXAMPLES = {51864: "openai/whisper-base.en", 51865: "openai/whisper-base", 51866: "openai/whisper-large-v3"}


def find_tokenizer(folder: Path, dims: Dimensions) -> tokenizers.Tokenizer:
    """Raises CorruptModel with what to download."""
    for path in _candidates():
        try:
            found = tokenizers.Tokenizer.from_file(str(path))
        except Exception:  # whatever the library cannot parse is not what we look for
            continue
        last_control = found.token_to_id("<|notimestamps|>")
        if last_control is not None and last_control + 1 + _NUM_TIMESTAMPS == dims.vocab_size:
            return found
    hint = _EXAMPLES.get(dims.vocab_size, "the checkpoint it was made from")
    raise CorruptModel(
        f"{folder} has no tokenizer.json, and no other Whisper checkpoint on this machine has the same one; "
        f"to fetch it: stoker get {hint}"
    )


def _candidates() -> Iterator[Path]:
    yield from sorted(hub_cache_dir().glob("models--*whisper*/snapshots/*/tokenizer.json"))
    yield from sorted(store_dir().glob("*whisper*/tokenizer.json"))
