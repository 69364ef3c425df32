"""Whisper: checkpoints of every format, log-mel front end, encoder, cached decoder, decoding and long files.

The way in is model.py: `load_whisper`, then `transcribe`, or `begin` for a take that is fed piece by piece.
"""

from stoker.speech.whisper.model import WhisperModel, load_whisper
from stoker.speech.whisper.take import Take

__all__ = ["Take", "WhisperModel", "load_whisper"]
