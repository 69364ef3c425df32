"""Request bodies: bytes from the socket to a JSON object, strictly.

Strict means standard JSON in UTF-8 with unique keys, finite numbers and valid Unicode, so that
nothing later can trip over what a lenient parser let through. Fields are checked elsewhere.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, NoReturn, TypeVar

from starlette.requests import ClientDisconnect, Request

from stoker.errors import InvalidRequest, RequestCancelled

T = TypeVar("T")
JsonObject = dict[str, Any]

# Above this many bytes, parsing and tokenizing leave the event loop, which would stall every stream.
INLINE_BYTES = 16 * 1024
MAX_DEPTH = 64  # nested arrays and objects; a tool's JSON schema needs about 20
_TOO_DEEP = f"it nests more than {MAX_DEPTH} levels deep"


async def read_body(request: Request) -> bytes:
    """The whole body. The limits on size and time are a guard's (guards/body.py)."""
    try:
        return await request.body()
    except ClientDisconnect:
        raise RequestCancelled("the client went away while sending its request") from None


async def off_loop(workers: Executor, work: Callable[[], T], num_bytes: int) -> T:
    """Runs `work` here when the request is small, on a worker when it is large."""
    if num_bytes <= INLINE_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(workers, work)


class _NotStrict(ValueError):
    """What Python's parser would have let through."""


def parse_object(body: bytes) -> JsonObject:
    """The JSON object in `body`. Raises InvalidRequest `invalid JSON body: what and where`."""
    try:
        value = json.loads(
            body.decode("utf-8-sig"), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant
        )
        if not isinstance(value, dict):
            raise _NotStrict("it must be an object")
        if _too_deep(value):
            raise _NotStrict(_TOO_DEEP)
        if b"\\u" in body:  # only an escape can smuggle in half a surrogate pair
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"invalid JSON body: {_what(error, body)}") from None
    return value


def _what(error: ValueError | RecursionError, body: bytes) -> str:
    if isinstance(error, json.JSONDecodeError):
        if not body.strip():
            return "it is empty"
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    if isinstance(error, UnicodeEncodeError):
        return "it has half a surrogate pair"
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    return str(error) if isinstance(error, _NotStrict) else "a number has too many digits"


def _unique_keys(pairs: list[tuple[str, Any]]) -> JsonObject:
    table = dict(pairs)
    if len(table) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise _NotStrict(f"the key {json.dumps(twice[:80])} comes twice in one object")
    return table


def _refuse_constant(name: str) -> NoReturn:
    raise _NotStrict(f"{name} is not a JSON number")


def _too_deep(value: Any) -> bool:
    """Whether arrays and objects nest more than MAX_DEPTH deep, without recursion."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for item in level:
            children = item.values() if isinstance(item, dict) else item
            deeper += [child for child in children if isinstance(child, dict | list)]
        if not deeper:
            return False
        level = deeper
    return True
