"""Rows of an answer that are not what was asked for: another server, another schema, or empty values."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from mirror.errors import AnalyticsError, named

_P = ParamSpec("_P")
_T = TypeVar("_T")
_STRANGE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_ADVICE: Final = "is it a Pinot, with the tables that headrace pinot apply makes, and without null handling?"


def as_asked(read: Callable[_P, _T]) -> Callable[_P, _T]:
    """Have what takes rows apart raise AnalyticsError where they are not as they were asked for."""

    @wraps(read)
    def reading(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return read(*args, **kwargs)
        except _STRANGE as error:
            raise AnalyticsError(f"Pinot's answer cannot be read: {named(error)}", advice=_ADVICE) from error

    return reading
