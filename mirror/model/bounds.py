"""What a stored text or number may be. Every field of a definition, a request or a command passes one of
these checks, on the way in and when it is read back, so that nothing beyond them has to expect the worst.

Each check takes a value of any type, returns it with the type that it then has, and raises InvalidRequest
that names the field (`what`) and shows the value in part.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

from mirror.errors import InvalidRequest
from mirror.wording import counted

LONGEST_NAME: Final = 200
"""Characters of names that go into znode paths, consumer groups and transactional ids."""

LONGEST_REASON: Final = 1_000
"""Characters of a sentence that a person gives."""

LARGEST_MS: Final = 10**15
"""The largest moment or length of time in milliseconds; a moment of the year 33658."""

LARGEST_PARTITION: Final = 2**31 - 1
"""The largest partition number of Kafka's protocol."""

_MOST_DIGITS: Final = 18
_SHOWN: Final = 60
_BLANKS: Final = "\t\n\r"
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_Choice = TypeVar("_Choice", bound=StrEnum)


def shown(value: object) -> str:
    """A value for a message: in quotes, with escapes, cut where it is long."""
    if isinstance(value, str):
        return (
            repr(value)
            if len(value) <= _SHOWN
            else f"{value[:_SHOWN]!r}… ({counted(len(value), 'character')})"
        )
    if value is None or isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, int) and -(10**_MOST_DIGITS) < value < 10**_MOST_DIGITS:
        return repr(value)
    return f"a value of type {type(value).__name__}"


def text(what: str, value: object, longest: int, *, shortest: int = 0) -> str:
    """Text of bounded length that UTF-8 can encode; tabs and line ends are its only control characters."""
    if not isinstance(value, str):
        raise InvalidRequest(f"{what} must be text, not {shown(value)}")
    if not shortest <= len(value) <= longest:
        raise InvalidRequest(
            f"{what} has {counted(len(value), 'character')}",
            advice=f"{shortest} to {counted(longest, 'character')} are possible",
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{what} {shown(value)} has half of a surrogate pair") from error
    if any((one < " " and one not in _BLANKS) or one == "\x7f" for one in value):
        raise InvalidRequest(f"{what} {shown(value)} has control characters")
    return value


def line(what: str, value: object, longest: int = LONGEST_NAME, *, shortest: int = 1) -> str:
    """Printable text of one line, without blanks around it."""
    found = text(what, value, longest, shortest=shortest)
    if not found.isprintable() or found != found.strip():
        raise InvalidRequest(f"{what} {shown(found)} must be printable, without blanks around it")
    return found


def integer(what: str, value: object, lowest: int, highest: int) -> int:
    """A whole number within bounds; truth values are no numbers."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequest(f"{what} must be a whole number, not {shown(value)}")
    if not lowest <= value <= highest:
        raise InvalidRequest(f"{what} is {shown(value)}; it must lie between {lowest} and {highest}")
    return value


def digits(what: str, value: object, lowest: int, highest: int) -> int:
    """A whole number that is written as text in decimal digits."""
    found = text(what, value, LONGEST_REASON * 10)
    if not (found.isascii() and found.isdecimal()) or len(found) > _MOST_DIGITS:
        raise InvalidRequest(f"{what} is {shown(found)}; a number from {lowest} to {highest} is needed")
    return integer(what, int(found), lowest, highest)


def decimal(what: str, value: object, lowest: float, highest: float) -> float:
    """A finite number that is written as text: in digits, perhaps with a point and an exponent."""
    found = text(what, value, LONGEST_REASON * 10)
    if not _DECIMAL.fullmatch(found):
        raise InvalidRequest(f"{what} is {shown(found)}; a number from {lowest:g} to {highest:g} is needed")
    return number(what, float(found), lowest, highest)


def number(what: str, value: object, lowest: float, highest: float) -> float:
    """A finite number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest(f"{what} must be a number, not {shown(value)}")
    if not (math.isfinite(value) if isinstance(value, float) else True) or not lowest <= value <= highest:
        raise InvalidRequest(f"{what} is {shown(value)}; it must lie between {lowest:g} and {highest:g}")
    return float(value)


def flag(what: str, value: object) -> bool:
    """A truth value."""
    if not isinstance(value, bool):
        raise InvalidRequest(f"{what} must be true or false, not {shown(value)}")
    return value


def choice(what: str, kind: type[_Choice], value: object) -> _Choice:
    """One of the values of an enum."""
    if isinstance(value, str):
        for one in kind:
            if one.value == value:
                return one
    known = ", ".join(one.value for one in kind)
    raise InvalidRequest(f"{what} cannot be {shown(value)}", advice=f"choose {known}")


def mapping(what: str, value: object) -> Mapping[str, Any]:
    """An object of JSON: values by text."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidRequest(f"{what} must map names to values, not {shown(value)}")
    return value


def sequence(what: str, value: object, longest: int) -> list[Any]:
    """A list of JSON of bounded length."""
    if not isinstance(value, list):
        raise InvalidRequest(f"{what} must be a list, not {shown(value)}")
    if len(value) > longest:
        raise InvalidRequest(f"{what} has {len(value)} entries", advice=f"{longest} are possible")
    return value


def field(document: Mapping[str, Any], name: str) -> Any:
    """A field that must be there."""
    if name not in document:
        raise InvalidRequest(f"the field {name} is missing")
    return document[name]
