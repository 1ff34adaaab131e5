"""Validates text and numbers.

Each field of a definition, request or command is checked on input, and again when it is read from storage.
The rest of the code can therefore rely on valid values.

Each function accepts a value of any type, and returns it with its checked type, or raises InvalidRequest. The
message contains the name of the field (`label`) and the start of the value.
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
"""Maximum length of a name that is used in node paths, consumer groups and transactional ids, in
characters."""

LONGEST_REASON: Final = 1_000
"""Maximum length of a reason, in characters."""

LARGEST_MS: Final = 10**15
"""Largest timestamp or duration in milliseconds; as a timestamp, it lies in the year 33658."""

LARGEST_PARTITION: Final = 2**31 - 1
LARGEST_OFFSET: Final = 2**63 - 1
"""Largest partition number and largest offset in Kafka's protocol."""

REACH_SECONDS: Final = 5.0
"""Maximum seconds for which a command waits for the first response of a server, be it a broker, a ZooKeeper
server, Pinot or an instance.

The kernel sends a lost packet again after 1 and 3 s, so one attempt survives two lost packets.
"""

_MOST_DIGITS: Final = 18
_SHOWN: Final = 60
_BLANKS: Final = "\t\n\r"
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_Choice = TypeVar("_Choice", bound=StrEnum)


def shown(value: object) -> str:
    """Return a value as text for an error message: quoted, escaped, and truncated if long."""
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


def text(label: str, value: object, longest: int, *, shortest: int = 0) -> str:
    """Check that text has a permitted length and can be encoded as UTF-8. Return it.

    Control characters other than tabs and line ends are rejected.
    """
    if not isinstance(value, str):
        raise InvalidRequest(f"{label} must be text, not {shown(value)}")
    if not shortest <= len(value) <= longest:
        raise InvalidRequest(
            f"invalid length of {label}: {counted(len(value), 'character')}",
            advice=f"must be {shortest} to {counted(longest, 'character')}",
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{label} {shown(value)} contains an unpaired surrogate") from error
    if any((character < " " and character not in _BLANKS) or character == "\x7f" for character in value):
        raise InvalidRequest(f"{label} {shown(value)} contains control characters")
    return value


def cause(reason: object, requested_by: object) -> tuple[str, str]:
    """Return the reason and the requester of a change, if they are valid text."""
    return text("the reason", reason, LONGEST_REASON), text("requested_by", requested_by, LONGEST_NAME)


def line(label: str, value: object, longest: int = LONGEST_NAME, *, shortest: int = 1) -> str:
    """Return the value if it is printable, single-line text without surrounding blanks."""
    found = text(label, value, longest, shortest=shortest)
    if not found.isprintable() or found != found.strip():
        raise InvalidRequest(
            f"{label} {shown(found)} must be printable and must not start or end with blanks"
        )
    return found


def integer(label: str, value: object, lowest: int, highest: int) -> int:
    """Return an integer within bounds; booleans are rejected."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequest(f"{label} must be a whole number, not {shown(value)}")
    if not lowest <= value <= highest:
        raise InvalidRequest(f"{label} is {shown(value)}; must be between {lowest} and {highest}")
    return value


def digits(label: str, value: object, lowest: int, highest: int) -> int:
    """Parse an integer written in decimal digits."""
    found = text(label, value, LONGEST_REASON * 10)
    if not (found.isascii() and found.isdecimal()) or len(found) > _MOST_DIGITS:
        raise InvalidRequest(f"{label} is {shown(found)}; must be a number from {lowest} to {highest}")
    return integer(label, int(found), lowest, highest)


def decimal(label: str, value: object, lowest: float, highest: float) -> float:
    """Parse a finite decimal number; a point and an exponent are allowed."""
    found = text(label, value, LONGEST_REASON * 10)
    if not _DECIMAL.fullmatch(found):
        raise InvalidRequest(f"{label} is {shown(found)}; must be a number from {lowest:g} to {highest:g}")
    return number(label, float(found), lowest, highest)


def number(label: str, value: object, lowest: float, highest: float) -> float:
    """Return the value if it is a finite number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest(f"{label} must be a number, not {shown(value)}")
    if not (math.isfinite(value) if isinstance(value, float) else True) or not lowest <= value <= highest:
        raise InvalidRequest(f"{label} is {shown(value)}; must be between {lowest:g} and {highest:g}")
    return float(value)


def flag(label: str, value: object) -> bool:
    """Return the value if it is a boolean."""
    if not isinstance(value, bool):
        raise InvalidRequest(f"{label} must be true or false, not {shown(value)}")
    return value


def choice(label: str, kind: type[_Choice], value: object) -> _Choice:
    """Return the member of an enumeration with this value."""
    if isinstance(value, str):
        for member in kind:
            if member.value == value:
                return member
    known = ", ".join(member.value for member in kind)
    raise InvalidRequest(f"{label} cannot be {shown(value)}", advice=f"choose {known}")


def mapping(label: str, value: object) -> Mapping[str, Any]:
    """Return a JSON object: a mapping with text keys."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidRequest(f"{label} must map names to values, not {shown(value)}")
    return value


def sequence(label: str, value: object, longest: int) -> list[Any]:
    """Return the value if it is a JSON list of bounded length."""
    if not isinstance(value, list):
        raise InvalidRequest(f"{label} must be a list, not {shown(value)}")
    if len(value) > longest:
        raise InvalidRequest(f"{label} has {len(value)} entries", advice=f"at most {longest} are allowed")
    return value


def field(document: Mapping[str, Any], name: str) -> Any:
    """Return the value of a required field of a document."""
    if name not in document:
        raise InvalidRequest(f"missing field {name}")
    return document[name]
