"""`data:` URLs: base64 only, decoded locally, never policy-checked."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import unquote_to_bytes

from stoker.errors import InvalidRequest


def decode_data_url(url: str, kind: str, max_bytes: int) -> bytes:
    """The bytes of `data:[type];base64,...`. Raises InvalidRequest naming what is wrong."""
    head, comma, text = url.partition(",")
    if not comma or not head.lower().startswith("data:") or not head.lower().endswith(";base64"):
        raise InvalidRequest(f"prompt build failed: {kind} data url must be base64", param="messages")
    raw = b"".join(unquote_to_bytes(text).split())
    if len(raw) // 4 * 3 > max_bytes + 2:
        raise InvalidRequest(
            f"prompt build failed: {kind} is larger than {max_bytes} bytes", param="messages"
        )
    try:
        return base64.b64decode(raw + b"=" * (-len(raw) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(
            f"prompt build failed: {kind} data url is not valid base64", param="messages"
        ) from None
