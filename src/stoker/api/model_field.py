"""The `model` of a request. It chooses nothing, as one model is loaded; an operator may insist on it."""

from __future__ import annotations

from stoker.api.fields import Fields
from stoker.api.state import ApiSettings
from stoker.errors import InvalidRequest


def read_model(fields: Fields, settings: ApiSettings) -> str | None:
    """Raises InvalidRequest for one that is no text, and where one is required for none."""
    model = fields.string("model")
    if settings.require_model and not model:
        # With a type, so that OpenAI's shape names the field too.
        raise InvalidRequest("model is required", param="model", type="invalid_request_error")
    return model
