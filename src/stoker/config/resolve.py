"""Where the value of a setting comes from: flag > environment > config file > default."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stoker.config.setting import Setting, SettingError, parse
from stoker.config.table import SETTINGS, Settings

PREFIXES = ("STOKER_", "MLX_BUN_")  # in order of precedence


def resolve(
    flags: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    config_file: Path | None = None,
) -> Settings:
    """The settings in force.

    `flags` maps setting names to what the command line gave (None = not given). `config_file`
    must exist when named; without it STOKER_CONFIG, then the default place, is read if present.
    Raises SettingError with one sentence that names the source of a bad value.
    """
    environ = os.environ if environ is None else environ
    flags = flags or {}
    path, table = _read_config(config_file, environ)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, setting in SETTINGS.items():
        found = _from_environ(setting, environ)
        if flags.get(name) is not None:
            source = setting.flags[0] if setting.flags else name
            values[name] = parse(setting, flags[name], source)
        elif found is not None:
            source, text = found
            values[name] = parse(setting, text, source)
        elif name in table:
            source = str(path)
            values[name] = parse(setting, table[name], f"{name} in {path}", typed=True)
        else:
            source = "default"
        sources[name] = source
    return Settings(**values, sources=MappingProxyType(sources))


def _from_environ(setting: Setting, environ: Mapping[str, str]) -> tuple[str, str] | None:
    for prefix in PREFIXES:
        text = environ.get(prefix + setting.env)
        # An empty value counts as unset, as does a boolean that is not exactly 1 or 0.
        if text and (setting.kind != "bool" or text in ("0", "1")):
            return prefix + setting.env, text
    return None


def default_config_file(environ: Mapping[str, str]) -> Path:
    root = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(root) / "stoker" / "config.toml"


def _read_config(named: Path | None, environ: Mapping[str, str]) -> tuple[Path, dict[str, Any]]:
    if named is None and environ.get("STOKER_CONFIG"):
        named = Path(environ["STOKER_CONFIG"]).expanduser()
    path = named or default_config_file(environ)
    import tomllib

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named is not None:
            raise SettingError(f"the config file {path} does not exist") from None
        return path, {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingError(f"the config file {path} cannot be read: {error}") from None
    entries = {key.replace("-", "_"): value for key, value in table.items()}
    for key in entries:
        if key not in SETTINGS:
            near = difflib.get_close_matches(key, SETTINGS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingError(f"{path} sets {key}, which is no setting{hint}")
    return path, entries
