"""Parses untrusted JSON, applies merge patches, and compares JSON documents."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mirror.errors import InvalidRequest
from mirror.model.bounds import shown
from mirror.wording import counted

LARGEST: Final = 900_000
"""Maximum size of a document in bytes, in a request and when stored; a node holds 1 MiB."""
_HALF_OF_A_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]")
_NESTING: Final = (dict, list)


def parsed(data: bytes) -> Any:
    """Parse UTF-8 JSON.

    The result can always be encoded again. Raises InvalidRequest for invalid UTF-8, unpaired surrogates, NaN,
    infinities, too long numbers and too deep nesting.
    """
    try:
        text = data.decode()
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        if _HALF_OF_A_PAIR.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise InvalidRequest("the JSON is nested too deeply") from error
    except ValueError as error:
        raise InvalidRequest(f"invalid JSON: {str(error)[:200]}") from error
    return value


def mapping_of(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object from its pairs, in linear time. Raises ValueError for a duplicate key."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"duplicate key {shown(key)} in an object")
        found[key] = value
    return found


def check_shape(value: object, deepest: int, most_keys: int) -> None:
    """Check the depth of a document and the number of keys of each object. Raises InvalidRequest."""
    level = _below([[value]])
    for _ in range(deepest):
        if any(isinstance(inner, dict) and len(inner) > most_keys for inner in level):
            raise InvalidRequest(
                "a JSON object is too large", advice=f"at most {counted(most_keys, 'key')} allowed"
            )
        level = _below(level)
        if not level:
            return
    raise InvalidRequest(
        "the JSON is nested too deeply", advice=f"at most {counted(deepest, 'level')} allowed"
    )


def _below(level: Sequence[Any]) -> list[Any]:
    """Return the lists and objects directly inside the given values."""
    return [
        below
        for inner in level
        for below in (inner.values() if isinstance(inner, dict) else inner)
        if isinstance(below, _NESTING)
    ]


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text[:20])


class ChangedValue(NamedTuple):
    """A difference between two documents. A value is None if the field is missing.

    `pointer`: JSON pointer of the value (RFC 6901).
    """

    pointer: str
    before: Any
    after: Any


def pointer_to(parts: Iterable[object]) -> str:
    """Return the JSON pointer (RFC 6901) for a path."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def merged(target: Any, patch: Any) -> Any:
    """Apply a merge patch (RFC 7386) to a document, and return the result.

    Objects are merged, null removes a field, and any other value replaces the field.
    """
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


def take_out(document: dict[str, Any], place: Sequence[str]) -> None:
    """Remove a nested field from a document if it exists."""
    *parents, field = place
    level: Any = document
    for parent in parents:
        level = level.get(parent) if isinstance(level, dict) else None
    if isinstance(level, dict):
        level.pop(field, None)


def differences(before: Any, after: Any, *parts: str) -> Iterator[ChangedValue]:
    """Yield the fields that differ between two documents, sorted by pointer.

    Objects are compared field by field, all other values as a whole.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted(before.keys() | after.keys()):
            yield from differences(before.get(key), after.get(key), *parts, key)
    elif before != after:
        yield ChangedValue(pointer_to(parts), before, after)
