"""Base of every settings class. A room declares its own class; `mirror/settings.py` composes them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(gt=0)]


class Settings(BaseModel):
    """Frozen; unknown keys are errors; the string under a field is its documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
