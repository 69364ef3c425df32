"""The disk tier of the prefix cache: histories survive restarts. tier.py is what the engine uses."""

from stoker.cache.disk.keys import Namespace
from stoker.cache.disk.stats import NOTHING_TO_FLUSH, DiskStats, FlushReport
from stoker.cache.disk.tier import DiskConfig, DiskTier

__all__ = ["NOTHING_TO_FLUSH", "DiskConfig", "DiskStats", "DiskTier", "FlushReport", "Namespace"]
