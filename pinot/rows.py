"""Reports rows of Pinot that a query function cannot parse: another server, another schema, or empty
values."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from mirror.errors import AnalyticsError
from mirror.model.reasons import named

_P = ParamSpec("_P")
_T = TypeVar("_T")
_STRANGE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_ADVICE: Final = "check that it is Pinot, with the tables of headrace pinot apply and without null handling"


def checked_rows(read: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a query function so that it raises AnalyticsError for rows that it cannot parse."""

    @wraps(read)
    def reading(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return read(*args, **kwargs)
        except _STRANGE as error:
            raise AnalyticsError(f"cannot parse Pinot's response: {named(error)}", advice=_ADVICE) from error

    return reading
