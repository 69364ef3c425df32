"""Every error stoker raises on purpose.

StokerError
├── InvalidRequest            400  the caller's input is wrong; `param` names the field
│   ├── ContextLengthExceeded 400  prompt does not fit the model's window or an explicit cap
│   ├── OverBudget            400  needs more memory than the operator gives to one request
│   ├── TemplateError         400  the chat template refused the messages
│   └── GrammarError          400  a constraint on the text cannot be compiled
├── Unauthorized              401
├── Forbidden                 403  Host or Origin check
├── NotFound                  404
├── PayloadTooLarge           413
├── QueueFull                 429  64 requests already wait
├── RequestCancelled          499
├── GenerationFailed          500  the engine failed after admission
├── Unavailable               503  shutting down, or the part is not loaded
└── ModelError                     loading and finding models (command line and start-up)
    ├── ModelNotFound
    ├── AmbiguousModel
    ├── UnsupportedModel           architecture or format we have no file for
    ├── CorruptModel               truncated file, wrong checksum, missing tensor
    └── DownloadError

The front turns `status`, `type` and `code` into each protocol's own error shape; nothing else
decides a status code.
"""

from __future__ import annotations


class StokerError(Exception):
    """Base of the tree. `message` is written for the person who made the mistake."""

    status: int = 500
    type: str | None = None
    code: str | None = None
    retry_after_s: int | None = None  # when asking again may help

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        type: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        if type is not None:
            self.type = type
        if code is not None:
            self.code = code


class InvalidRequest(StokerError):
    status = 400


class ContextLengthExceeded(InvalidRequest):
    type = "invalid_request_error"
    code = "context_length_exceeded"


class OverBudget(InvalidRequest):
    type = "memory_admission"
    code = "kv_over_budget"


class TemplateError(InvalidRequest):
    """Message starts with `prompt build failed: `."""


class GrammarError(InvalidRequest):
    """Message is the reason, as a clause without a subject."""


class Unauthorized(StokerError):
    status = 401
    type = "authentication_error"
    code = "invalid_api_key"


class Forbidden(StokerError):
    status = 403
    type = "permission_error"


class NotFound(StokerError):
    status = 404


class PayloadTooLarge(StokerError):
    status = 413
    type = "invalid_request_error"


class QueueFull(StokerError):
    status = 429
    type = "resource_admission"
    code = "queue_full"
    retry_after_s = 1  # a place becomes free whenever one reply ends


class RequestCancelled(StokerError):
    status = 499


class GenerationFailed(StokerError):
    status = 500
    type = "server_error"


class Unavailable(StokerError):
    status = 503
    type = "server_error"


class ModelError(StokerError):
    """Something about a model on disk or on a hub; shown by the command line as one sentence."""


class ModelNotFound(ModelError):
    status = 404


class AmbiguousModel(ModelError):
    """Several models match; `candidates` lists their ids."""

    def __init__(self, message: str, candidates: tuple[str, ...]) -> None:
        super().__init__(message)
        self.candidates = candidates


class UnsupportedModel(ModelError):
    pass


class CorruptModel(ModelError):
    pass


class DownloadError(ModelError):
    pass
