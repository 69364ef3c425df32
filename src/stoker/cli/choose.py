"""Which model a command runs when none is named: a decision over the models at hand."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from stoker.errors import ModelNotFound

if TYPE_CHECKING:
    from stoker.library import ModelEntry
    from stoker.library.entry import ModelKind

STARTER_MODEL = "smollm2-135m-instruct"  # downloaded on a fresh machine; small, real, free
PREFERRED_MODELS = ("Qwen/Qwen3-4B", "HuggingFaceTB/SmolLM3-3B")  # general models, best first


class Candidate(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...


C = TypeVar("C", bound=Candidate)


def choose_model(models: Sequence[C], usable_bytes: int) -> C | None:
    """A preferred model if it is there and fits, else the largest that fits, else None.

    `models` can all hold a chat. The weights must leave a fifth of the usable memory for keys,
    values and work space.
    """
    fitting = [model for model in models if model.size_bytes <= usable_bytes * 4 // 5]
    for name in PREFERRED_MODELS:
        for model in fitting:
            if model.id.lower() == name.lower():
                return model
    return max(fitting, key=lambda model: model.size_bytes, default=None)


def find_or_choose(wanted: str | None, *, other_kinds: Collection[ModelKind] = ()) -> ModelEntry:
    """The model the user named, else the automatic choice, downloading the starter if need be.
    A name may also be that of a model of `other_kinds`, when no model that generates has it.

    Raises ModelNotFound, AmbiguousModel or DownloadError.
    """
    from stoker import machine
    from stoker.cli.output import note
    from stoker.library import find_model, list_models

    if wanted is not None:
        try:
            return find_model(wanted, kinds=("chat", "text"))
        except ModelNotFound:
            if not other_kinds:
                raise
            return find_model(wanted, kinds=("chat", "text", *other_kinds))
    chosen = choose_model([model for model in list_models() if model.kind == "chat"], machine.usable_memory())
    if chosen is not None:
        return chosen
    from stoker.cli.progress import download

    note(f"No chat model that fits is on this machine yet; downloading the starter, {STARTER_MODEL}.")
    return download(STARTER_MODEL)


def loading_line(entry: ModelEntry) -> str:
    from stoker.library.entry import human_size

    return f"Loading {entry.id} ({human_size(entry.size_bytes)}) ..."
