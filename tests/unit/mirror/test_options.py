"""Test the texts of validation errors, which are worded like Headrace's other errors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError, model_validator

from mirror.options import Settings, first_problem, validation_text


class _Part(Settings):
    number: int = 0


class _Sample(Settings):
    choice: Literal["one", "two"] = "one"
    count: Annotated[int, Field(ge=1, le=9)] = 1
    name: Annotated[str, Field(min_length=1, max_length=3, pattern="^a")] = "a"
    names: Annotated[list[str], Field(max_length=1)] = Field(default=[])
    part: _Part = _Part()
    wait_seconds: float = 1.0
    needed: str

    @model_validator(mode="after")
    def _consistent(self) -> _Sample:
        if self.count > 5 and not self.names:
            raise ValueError("count above 5 requires names")
        return self


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"choice": "once"}, "choice: must be 'one' or 'two'"),
        ({"count": 0}, "count: must be at least 1"),
        ({"count": 10}, "count: must be at most 9"),
        ({"count": "many"}, "count: must be a valid integer, unable to parse string as an integer"),
        ({"name": ""}, "name: must have at least 1 character"),
        ({"name": "b"}, "name: must match pattern '^a'"),
        ({"names": ["a", "b"]}, "names: must have at most 1 item after validation, not 2"),
        ({"part": 1}, "part: must be a valid dictionary"),
        ({"part": {"number": None}}, "part.number: must be a valid integer"),
        ({"part": {"numbr": 1}}, "part.numbr: unknown field"),
        ({"wait_seconds": 10**12}, "wait_seconds: must be at most 1000000000"),
        ({"count": 6}, ": count above 5 requires names"),
    ],
)
def test_a_validation_error_is_worded_like_other_errors(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError) as raised:
        _Sample.model_validate({"needed": "x", **given})
    assert first_problem(raised.value) == text


def test_a_missing_field_is_required() -> None:
    with pytest.raises(ValidationError) as raised:
        _Sample.model_validate({})
    assert validation_text(raised.value.errors()[0]) == "required"
