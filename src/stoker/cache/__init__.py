"""Computed prefixes, kept for the next request that begins alike. Index and policy, no tensors."""

from stoker.cache.node import Node
from stoker.cache.policy import Retention
from stoker.cache.prefix import Hit, PrefixIndex
from stoker.cache.prompt_cache import PromptCache

__all__ = ["Hit", "Node", "PrefixIndex", "PromptCache", "Retention"]
