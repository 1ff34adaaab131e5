"""Base of every settings class. A room declares its own class; `mirror/settings.py` composes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mirror.errors import InvalidRequest

Seconds = Annotated[float, Field(gt=0)]


class Settings(BaseModel):
    """Frozen; unknown keys are errors; the string under a field is its documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def read_by(read: Callable[[str], object]) -> AfterValidator:
    """Goes with a text in `Annotated`: what `read` refuses with InvalidRequest, the settings refuse."""

    def check(text: str) -> str:
        try:
            read(text)
        except InvalidRequest as error:
            raise ValueError(str(error)) from error
        return text

    return AfterValidator(check)
