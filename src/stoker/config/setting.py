"""One setting: what is known of it besides its value, and how text or TOML becomes a value.

Which settings there are is in table.py; where values come from is in resolve.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stoker.errors import StokerError

Kind = Literal["int", "float", "str", "bool", "list", "path"]


class SettingError(StokerError):
    """A setting has a value it cannot take; the message names where the value came from."""

    status = 400


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of one setting besides its value."""

    name: str  # field of Settings, and key of the config file
    kind: Kind
    flags: tuple[str, ...]  # the first is the main one, the others are accepted too
    env: str  # environment name without its prefix
    group: str  # heading in help and documentation
    help: str  # one sentence without a full stop
    default_help: str  # what is chosen when nothing is given
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    secret: bool = False  # never printed

    @property
    def range_help(self) -> str:
        """The accepted values in words, or an empty string."""
        if self.choices:
            return ", ".join(self.choices)
        if self.low is None:
            return ""
        low = _plain(self.low)
        return f"{low} to {_plain(self.high)}" if self.high is not None else f"{low} or more"

    @property
    def metavar(self) -> str:
        words = {"int": "N", "float": "X", "str": "TEXT", "bool": "", "list": "A,B", "path": "PATH"}
        return "|".join(self.choices) if self.choices else (self.unit or words[self.kind])


def parse(setting: Setting, raw: Any, source: str, *, typed: bool = False) -> Any:
    """`raw` as a value of `setting`. Text is parsed; with `typed` (a TOML value) only numbers,
    booleans and lists of the right type pass. Raises SettingError naming `source`."""
    value = _typed(setting, raw, source) if typed else _from_text(setting, raw, source)
    if setting.choices and str(value) not in setting.choices:
        raise SettingError(f"{source} must be one of {', '.join(setting.choices)}, not {raw!r}")
    if setting.low is not None and not setting.low <= value <= (setting.high or float("inf")):
        raise SettingError(f"{source} must be {setting.range_help}, not {raw}")
    return value


def _from_text(setting: Setting, raw: Any, source: str) -> Any:
    if isinstance(raw, bool):  # --flag / --no-flag
        return raw
    text = str(raw).strip()
    if setting.kind == "bool":
        return {"1": True, "0": False}[text]
    if setting.kind == "list":
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if not text:
        raise SettingError(f"{source} is empty; leave it out to get the default")
    if setting.kind == "path":
        return Path(text).expanduser()
    if setting.kind == "str":
        return text
    try:
        return int(text) if setting.kind == "int" else float(text)
    except ValueError:
        raise SettingError(f"{source} must be {_kind_in_words(setting)}, not {text!r}") from None


def _typed(setting: Setting, raw: Any, source: str) -> Any:
    kind = setting.kind
    if kind == "list" and isinstance(raw, list) and all(isinstance(item, str) for item in raw):
        return tuple(raw)
    if kind == "bool" and isinstance(raw, bool):
        return raw
    if kind == "float" and isinstance(raw, (int, float)) and not isinstance(raw, bool):
        return float(raw)
    if kind == "int" and isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    if kind in ("str", "path", "list") and isinstance(raw, str):
        return _from_text(setting, raw, source)
    raise SettingError(f"{source} must be {_kind_in_words(setting)}, not {raw!r}")


def _kind_in_words(setting: Setting) -> str:
    words = {
        "int": "a whole number",
        "float": "a number",
        "str": "text",
        "bool": "true or false",
        "list": "a list of texts",
        "path": "a path",
    }
    within = f" ({setting.range_help})" if setting.range_help else ""
    return words[setting.kind] + within


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"
