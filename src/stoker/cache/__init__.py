"""Computed prefixes, kept for the next request that begins alike. Index and policy, no tensors."""

from stoker.cache.prefix import Hit, PrefixIndex

__all__ = ["Hit", "PrefixIndex"]
