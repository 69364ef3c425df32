"""Where models live on this machine, and where the hub token is kept.

Reads the environment at call time, so that tests and long-lived servers see changes. Touches no disk
except to read the token file.
"""

from __future__ import annotations

import os
from pathlib import Path


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


def store_dir() -> Path:
    """stoker's own store: `$STOKER_HOME/models`, else `stoker/models` in the user's cache folder."""
    home = os.environ.get("STOKER_HOME")
    return (Path(home).expanduser() if home else _user_cache() / "stoker") / "models"


def hf_home() -> Path:
    home = os.environ.get("HF_HOME")
    return Path(home).expanduser() if home else _user_cache() / "huggingface"


def hub_cache_dir() -> Path:
    """The Hugging Face cache that other tools use too: HF_HUB_CACHE, else `$HF_HOME/hub`."""
    cache = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    return Path(cache).expanduser() if cache else hf_home() / "hub"


def hub_endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def hub_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").strip().lower() in {"1", "true", "yes", "on"}


def hub_token(explicit: str | None = None) -> str | None:
    """The token to show the hub: the argument, HF_TOKEN, the token file, else none.

    An empty argument means "no token, whatever the environment says".
    """
    if explicit is not None:
        return explicit.strip() or None
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if value := os.environ.get(name, "").strip():
            return value
    token_file = os.environ.get("HF_TOKEN_PATH")
    path = Path(token_file).expanduser() if token_file else hf_home() / "token"
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def repo_folder(cache: Path, repo_id: str) -> Path:
    """Where the cache keeps a repository: `models--org--name`."""
    return cache / ("models--" + repo_id.replace("/", "--"))


def lock_folder(cache: Path, repo_id: str) -> Path:
    """Where its lock files are; huggingface_hub locks the same ones."""
    return cache / ".locks" / repo_folder(cache, repo_id).name
