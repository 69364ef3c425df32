"""Token ids in OpenAI's own vocabulary, back to text.

Clients made for OpenAI (LangChain among them) cut texts into OpenAI's tokens when the request names
one of its models. They mean nothing to another model, but their text does.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.errors import InvalidRequest

_PREFIX = "text-embedding-"
_MODELS = (f"{_PREFIX}ada-002", f"{_PREFIX}3-small", f"{_PREFIX}3-large")


def is_openai_model(name: str) -> bool:
    return name in _MODELS


def text_of(model: str, ids: Sequence[int]) -> str:
    """Raises InvalidRequest, also when tiktoken or its vocabulary is not here."""
    try:
        import tiktoken

        encoding = tiktoken.encoding_for_model(model)
    except Exception as error:  # not installed, or its vocabulary could not be downloaded
        raise InvalidRequest(
            f"`input` holds token ids of {model}, and the vocabulary that tells their text is not here "
            f"({type(error).__name__}): install tiktoken where it can find its files, or send text "
            "(LangChain: check_embedding_ctx_length=False)",
            param="input",
            type="invalid_request_error",
        ) from None
    for id in ids:
        if not 0 <= id < encoding.n_vocab:
            raise InvalidRequest(
                f"`input` names token {id}, which {model} does not have",
                param="input",
                type="invalid_request_error",
            )
    try:
        return encoding.decode(list(ids))
    except KeyError as error:  # the vocabulary has gaps
        raise InvalidRequest(
            f"`input` names token {error}, which {model} does not have",
            param="input",
            type="invalid_request_error",
        ) from None
