"""What can be wrong with audio. Part of the tree in stoker/errors.py."""

from __future__ import annotations

from stoker.errors import InvalidRequest, Unavailable


class AudioError(InvalidRequest):
    """The bytes are no audio we can use; the message says why."""

    type = "invalid_request_error"


class SpeechUnavailable(Unavailable):
    """No Whisper checkpoint, or no voice activity weights, on this machine."""

    type = "model_unavailable"


def undecodable(reason: str) -> AudioError:
    return AudioError(f"undecodable audio: {reason}")
