"""The settings of stoker: an immutable snapshot made once at start.

settings = resolve({"port": "9000"})    # flag > STOKER_* > MLX_BUN_* > config file > default
settings.port, settings.sources["port"]
"""

from stoker.config.resolve import PREFIXES, default_config_file, resolve
from stoker.config.setting import Setting, SettingError, parse
from stoker.config.table import SETTINGS, Settings

__all__ = [
    "PREFIXES",
    "SETTINGS",
    "Setting",
    "SettingError",
    "Settings",
    "default_config_file",
    "parse",
    "resolve",
]
