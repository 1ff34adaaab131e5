"""Base of every settings class. A room declares its own class; `mirror/settings.py` composes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from mirror.errors import InvalidRequest

Seconds = Annotated[float, Field(gt=0)]
_LONGEST: Final = {"_seconds": 10**9, "_hours": 10**5}
"""By how the name of a setting ends: a longer time is one that no clock and no wait can take."""


class Settings(BaseModel):
    """Frozen; unknown keys are errors; the string under a field is its documentation. Numbers are finite, and
    times end."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _times_end(cls, value: Any, info: ValidationInfo) -> Any:
        longest = next((most for end, most in _LONGEST.items() if str(info.field_name).endswith(end)), None)
        if longest is not None and isinstance(value, int | float) and value > longest:
            raise ValueError(f"at most {longest} is possible")
        return value


def read_by(read: Callable[[str], object]) -> AfterValidator:
    """Goes with a text in `Annotated`: what `read` refuses with InvalidRequest, the settings refuse."""

    def check(text: str) -> str:
        try:
            read(text)
        except InvalidRequest as error:
            raise ValueError(str(error)) from error
        return text

    return AfterValidator(check)
