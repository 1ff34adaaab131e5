"""Base of all settings classes. Each package declares its own class; `mirror/settings.py` composes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo

from mirror.errors import InvalidRequest

Seconds = Annotated[float, Field(gt=0)]
_LONGEST: Final = {"_seconds": 10**9, "_hours": 10**5}
"""Maximum value by suffix of the setting's name. Clocks and waits cannot handle longer times."""
_WORDS: Final = (
    (r"^(Value error|Assertion failed), ", ""),
    (r"^[A-Z][a-z]+ should ", "must "),
    (r"\bgreater than or equal to\b", "at least"),
    (r"\bless than or equal to\b", "at most"),
    (r" or instance of \w+$", ""),
    (r"^Field required$", "required"),
    (r"^Extra inputs are not permitted$", "unknown field"),
)
"""Phrases of pydantic, and the words of Headrace's other errors."""


class Settings(BaseModel):
    """Immutable settings that reject unknown keys.

    The string after a field is its description. Numbers are finite, and times are limited.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _times_end(cls, value: Any, info: ValidationInfo) -> Any:
        longest = next((most for end, most in _LONGEST.items() if str(info.field_name).endswith(end)), None)
        if longest is not None and isinstance(value, int | float) and value > longest:
            raise ValueError(f"must be at most {longest}")
        return value


class DerivedSettings(Settings):
    """Base of settings whose fields are those of a dataclass that does not need pydantic. A subclass extends
    this class and the dataclass, and redeclares only fields with another default. Metadata of a field are its
    bounds, and the string under it is its documentation."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Copy the bounds of the dataclass fields to the fields of the new settings class."""
        options: Any = next(base for base in cls.__bases__ if is_dataclass(base))
        for field in fields(options):
            known = cls.__pydantic_fields__[field.name]
            annotation: Any = known.annotation
            found = FieldInfo.from_annotated_attribute(annotation, field)
            found.default = known.default
            cls.__pydantic_fields__[field.name] = found
        cls.model_rebuild(force=True)

    def values(self) -> dict[str, Any]:
        """Return the values of the fields that the dataclass declares, by name."""
        options: Any = self
        return {field.name: getattr(self, field.name) for field in fields(options)}


def read_by(read: Callable[[str], object]) -> AfterValidator:
    """Return a validator for `Annotated` that rejects texts for which `read` raises InvalidRequest."""

    def check(text: str) -> str:
        try:
            read(text)
        except InvalidRequest as error:
            raise ValueError(str(error)) from error
        return text

    return AfterValidator(check)


def validation_text(problem: Mapping[str, Any]) -> str:
    """Return the text of one error of pydantic (`ValidationError.errors`), such as `must be at least 1`."""
    text = str(problem["msg"])
    for phrase, words in _WORDS:
        text = re.sub(phrase, words, text)
    return text


def first_problem(error: ValidationError) -> str:
    """Return location and text of the first error, such as `limits.max_tasks: must be at least 1`."""
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc']))}: {validation_text(problem)}"
