"""The base of the models that describe bodies in /openapi.json.

They check nothing, so most servers never need their validators: pydantic builds them when the
description is first asked for, which saves a fifth of a second at start.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Documented(BaseModel):
    model_config = ConfigDict(defer_build=True)


class TemplateVariables(Documented):
    """Variables for the model's chat template, in every protocol."""

    model_config = ConfigDict(extra="allow")
    enable_thinking: bool | None = None
