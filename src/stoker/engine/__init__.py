"""The engine: token ids in, token events out. See engine.py for an example."""

from stoker.engine.engine import Engine, EngineConfig, EngineStats
from stoker.engine.handle import GenerationHandle

__all__ = ["Engine", "EngineConfig", "EngineStats", "GenerationHandle"]
