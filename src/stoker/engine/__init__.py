"""The engine: token ids in, token events out. See engine.py for an example."""

from stoker.engine.engine import Engine
from stoker.engine.handle import GenerationHandle
from stoker.engine.types import EngineConfig, EngineStats

__all__ = ["Engine", "EngineConfig", "EngineStats", "GenerationHandle"]
