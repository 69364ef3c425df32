"""`truncation: auto`: leave out the oldest turns of a conversation that is too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker.api.chat_order import ChatOrder
from stoker.errors import ContextLengthExceeded

Message = dict[str, Any]


def drop_oldest(messages: list[Message], make: Callable[[list[Message]], ChatOrder], room: int) -> ChatOrder:
    """The order of the longest tail of `messages` whose prompt has at most `room` tokens, cut in
    front of a user's turn so that no tool result loses its call. Leading system messages stay.
    Raises ContextLengthExceeded when even the last turn does not fit."""
    num_leading = next((i for i, m in enumerate(messages) if m["role"] != "system"), len(messages))
    leading, rest = messages[:num_leading], messages[num_leading:]
    cuts = [0, *(i for i, m in enumerate(rest) if m["role"] == "user" and i > 0)]

    def fitting(cut: int) -> ChatOrder | None:
        try:
            order = make([*leading, *rest[cut:]])
        except ContextLengthExceeded:
            return None
        return order if len(order.order.prompts[0]) <= room else None

    low, high, best = 0, len(cuts), None
    while low < high:  # the first cut that fits; rendering is what costs
        middle = 0 if (low, high) == (0, len(cuts)) else (low + high) // 2
        found = fitting(cuts[middle])
        if found is not None:
            best, high = found, middle
        else:
            low = middle + 1
    if best is None:
        raise ContextLengthExceeded(
            f"prompt is too long: the last turn alone is more than the {room} tokens there is room for"
        )
    return best
