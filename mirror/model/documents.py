"""JSON from outside: of a request, or of a znode that anybody may have written. Changes of JSON documents."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mirror.errors import InvalidRequest
from mirror.wording import counted

LARGEST: Final = 900_000
"""Bytes of a document, in a request and as it is stored: a znode holds 1 MiB."""
_HALF_OF_A_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]")
_NESTING: Final = (dict, list)


def parsed(data: bytes) -> Any:
    """The value of a JSON text in UTF-8. Whatever is in it can be encoded again.

    Raises InvalidRequest for anything else: bytes that are no UTF-8, halves of surrogate pairs, NaN and
    infinities, numbers of more digits than Python reads, nesting beyond what Python's stack bears.
    """
    try:
        text = data.decode()
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        if _HALF_OF_A_PAIR.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise InvalidRequest("the JSON is nested too deeply") from error
    except ValueError as error:
        raise InvalidRequest(f"it is not JSON: {str(error)[:200]}") from error
    return value


def check_shape(value: object, deepest: int, most_keys: int) -> None:
    """Raises InvalidRequest when lists and objects are nested beyond `deepest`, or an object has more than
    `most_keys`."""
    level = _below([[value]])
    for _ in range(deepest):
        if any(isinstance(one, dict) and len(one) > most_keys for one in level):
            raise InvalidRequest(
                "an object of the JSON is too large", advice=f"{counted(most_keys, 'key')} are possible"
            )
        level = _below(level)
        if not level:
            return
    raise InvalidRequest("the JSON is nested too deeply", advice=f"{counted(deepest, 'level')} are possible")


def _below(level: Sequence[Any]) -> list[Any]:
    """Lists and objects that are directly in these."""
    return [
        below
        for one in level
        for below in (one.values() if isinstance(one, dict) else one)
        if isinstance(below, _NESTING)
    ]


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text[:20])


class ChangedValue(NamedTuple):
    """A value that is another one in a second document; None for one that is not there. `pointer` says where
    it is (RFC 6901)."""

    pointer: str
    before: Any
    after: Any


def pointer_to(parts: Iterable[object]) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def merged(target: Any, patch: Any) -> Any:
    """A document after a merge patch (RFC 7386): objects are merged, null removes, anything else replaces."""
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
    """Remove a field of nested objects, where it is there."""
    *parents, field = place
    level: Any = document
    for parent in parents:
        level = level.get(parent) if isinstance(level, dict) else None
    if isinstance(level, dict):
        level.pop(field, None)


def differences(before: Any, after: Any, *parts: str) -> Iterator[ChangedValue]:
    """Where two documents differ, as deep as both have objects there, sorted by pointer."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted(before.keys() | after.keys()):
            yield from differences(before.get(key), after.get(key), *parts, key)
    elif before != after:
        yield ChangedValue(pointer_to(parts), before, after)
