"""Asking for a chat reply, whole or streamed, and taking it apart."""

from typing import Any

from tests.api.fronts import Front, frames

CHAT = "/v1/chat/completions"
HI: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]


def ask(**fields: Any) -> dict[str, Any]:
    return {"messages": HI, **fields}


async def error_of(front: Front, **fields: Any) -> str:
    response = await front.post(CHAT, ask(**fields))
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    return str(error["message"])


async def streamed(front: Front, **fields: Any) -> tuple[str, str, list[Any], list[str]]:
    """(text, finish reason, logprob entries, deltas) of a streamed reply."""
    *chunks, done = frames((await front.post(CHAT, ask(stream=True, **fields))).text)
    assert done == "[DONE]"
    deltas, entries, reason = [], [], ""
    for chunk in chunks:
        (choice,) = chunk["choices"]
        deltas.append(choice["delta"].get("content", ""))
        entries += (choice.get("logprobs") or {}).get("content", [])
        reason = choice["finish_reason"] or reason
    return "".join(deltas), reason, entries, deltas


async def whole(front: Front, **fields: Any) -> tuple[str, str, list[Any]]:
    (choice,) = (await front.post(CHAT, ask(**fields))).json()["choices"]
    entries = (choice.get("logprobs") or {}).get("content", [])
    return choice["message"]["content"], choice["finish_reason"], entries
