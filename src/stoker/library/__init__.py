"""Models on disk: find, download, describe, remove. Never loads a tensor.

from stoker.library import find_model, get_model, list_models, remove_model, search
"""

from stoker.library.catalog import CatalogModel, catalog
from stoker.library.download import get_model, search
from stoker.library.entry import ModelEntry, Unusable, human_size
from stoker.library.progress import DownloadState, FileProgress, Progress
from stoker.library.registry import find_model, list_models
from stoker.library.remove import Removal, remove_model
from stoker.library.scan import Scan, scan

__all__ = [
    "CatalogModel",
    "DownloadState",
    "FileProgress",
    "ModelEntry",
    "Progress",
    "Removal",
    "Scan",
    "Unusable",
    "catalog",
    "find_model",
    "get_model",
    "human_size",
    "list_models",
    "remove_model",
    "scan",
    "search",
]
