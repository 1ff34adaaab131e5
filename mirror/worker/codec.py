"""Converts messages to and from JSON lists of their fields. Pure.

Lanes of a group share a copy policy, which may be long. Therefore lane specs are encoded as a list of
policies and one row per lane. Each row starts with the index of its policy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from mirror.errors import InvalidRequest
from mirror.model.datastreams.lanes import LaneSpec
from mirror.model.datastreams.policy import CopyPolicy
from mirror.model.movement.history import UNKNOWN_RETENTION, Retention

LARGEST_SPEC: Final = 48 * 1024
"""Maximum size in bytes of the spec of one lane, including its policy."""
_UNKNOWN: Final = [*UNKNOWN_RETENTION]
_PLAIN: Final = frozenset({str, int, float, bool, NoneType})
"""Native JSON types, used by most fields."""
_tagged: Final[dict[str, Any]] = {}
"""Registered classes that are members of a union. Encoded values start with the class name."""


def tag(*kinds: Any) -> None:
    """Register classes whose encoded values start with the class name."""
    _tagged.update((kind.__name__, kind) for kind in kinds)


def dumps(plain: Any) -> str:
    """Return compact JSON for plain values."""
    return json.dumps(plain, separators=(",", ":"))


def joined(texts: Iterable[str], most: int) -> Iterator[str]:
    """Join texts with commas. Yields several parts if one would exceed `most` characters.

    Yields one empty part if there are no texts.
    """
    part: list[str] = []
    size = 0
    for text in texts:
        if part and size + len(text) + 1 > most:
            yield ",".join(part)
            part, size = [], 0
        part.append(text)
        size += len(text) + 1
    yield ",".join(part)


def spec_parts(specs: Sequence[LaneSpec], most: int) -> Iterator[str]:
    """Encode lane specs as JSON, in parts of at most `most` characters.

    Raises InvalidRequest for a spec larger than `LARGEST_SPEC`.
    """
    texts: dict[CopyPolicy, str] = {}
    policies: dict[CopyPolicy, int] = {}
    rows: list[str] = []
    size = 0
    for spec in specs:
        policy = spec.policy
        if policy not in texts:
            texts[policy] = dumps(to_plain(policy))
        row = dumps(_row(spec))[1:]
        if len(row) + len(texts[policy]) > LARGEST_SPEC:
            raise InvalidRequest(
                f"lane {str(spec.key.partition)[:_SHOWN]} too long: {len(row) + len(texts[policy])} bytes",
                advice=f"at most {LARGEST_SPEC} are allowed; shorten names and transforms of its datastream",
            )
        if rows and size + len(row) + len(texts[policy]) + _ROW_BYTES > most:
            yield _part(policies, texts, rows)
            policies, rows, size = {}, [], 0
        if policy not in policies:
            policies[policy] = len(policies)
            size += len(texts[policy]) + 1
        rows.append(f"[{policies[policy]},{row}")
        size += len(row) + _ROW_BYTES
    yield _part(policies, texts, rows) if rows else "[]"


_SHOWN: Final = 80
_ROW_BYTES: Final = 12


def _part(policies: Iterable[CopyPolicy], texts: dict[CopyPolicy, str], rows: Iterable[str]) -> str:
    return f"[[{','.join(texts[policy] for policy in policies)}],[{','.join(rows)}]]"


def _row(spec: LaneSpec) -> list[Any]:
    return [to_plain(getattr(spec, name)) for name in _names(LaneSpec) if name != "policy"]


def _plain_specs(specs: Sequence[LaneSpec]) -> list[Any]:
    policies: dict[CopyPolicy, int] = {}
    rows = [[policies.setdefault(spec.policy, len(policies)), *_row(spec)] for spec in specs]
    return [[to_plain(policy) for policy in policies], rows]


def _read_specs(plain: Any) -> tuple[LaneSpec, ...]:
    if not plain:
        return ()
    listed, rows = plain
    policies = [reader_of(CopyPolicy)(policy) for policy in listed]
    read = _fields_reader(LaneSpec)
    at = _names(LaneSpec).index("policy")
    return tuple([read([*row[1 : at + 1], policies[row[0]], *row[at + 1 :]]) for row in rows])


def to_plain(value: Any) -> Any:
    """Convert a value to nested lists of its fields, for JSON."""
    kind: Any = type(value)
    if kind in _PLAIN or _is_plain(kind):
        return value
    if isinstance(value, tuple):
        is_specs = bool(value) and isinstance(value[0], LaneSpec)
        return _plain_specs(value) if is_specs else [to_plain(item) for item in value]
    if is_dataclass(value):
        plain = [to_plain(getattr(value, name)) for name in _names(kind)]
        return [kind.__name__, *plain] if kind.__name__ in _tagged else plain
    return value


def _is_flat(hint: Any) -> bool:
    """Return whether values of this type survive encoding to JSON and decoding unchanged."""
    hint = getattr(hint, "__supertype__", hint)
    return hint in _PLAIN or (isinstance(hint, UnionType) and all(_is_flat(arg) for arg in get_args(hint)))


@cache
def _is_plain(hint: Any) -> bool:
    """Return whether JSON can encode values of this type directly.

    Supported are also named tuples of such values.
    """
    if _is_flat(hint) or hint is Ellipsis:
        return True
    if _is_named(hint):
        return all(_is_plain(get_type_hint) for get_type_hint in get_type_hints(hint).values())
    return (get_origin(hint) is tuple or isinstance(hint, UnionType)) and all(
        _is_plain(arg) for arg in get_args(hint)
    )


def _is_named(hint: Any) -> bool:
    """Return whether the type is a `NamedTuple`."""
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def reader_of(hint: Any) -> Callable[[Any], Any]:
    """Return a function that converts the output of `to_plain` back to a value of this type."""
    arguments = get_args(hint)
    if isinstance(hint, UnionType):
        kinds = [kind for kind in arguments if kind is not NoneType]
        if kinds[0].__name__ in _tagged:
            return lambda plain: _fields_reader(_tagged[plain[0]])(plain[1:])
        inner = reader_of(kinds[0])
        return lambda plain: None if plain is None else inner(plain)
    if hint == tuple[LaneSpec, ...]:
        return _read_specs
    if get_origin(hint) is tuple:
        element = reader_of(arguments[0])
        return lambda plain: tuple([element(item) for item in plain]) if plain else ()
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if hint is Retention:  # the same for nearly every lane
        return lambda plain: UNKNOWN_RETENTION if plain == _UNKNOWN else Retention(*plain)
    if is_dataclass(hint) or _is_named(hint):
        return _fields_reader(hint)
    return lambda plain: plain


@cache
def _fields_reader(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind)
    names = kind._fields if _is_named(kind) else [field.name for field in fields(kind)]
    # Nearly every field is a native JSON value; only the others are converted.
    read_before = "policy" if kind is LaneSpec else ""  # read once for all lanes that share it
    unlike = [at for at, name in enumerate(names) if not _is_flat(hints[name]) and name != read_before]
    readers = [(at, reader_of(hints[names[at]])) for at in unlike]
    count, make = len(names), kind._make if _is_named(kind) else lambda values: kind(*values)

    def read(plain: Any) -> Any:
        if len(plain) != count:
            raise ValueError(f"expected {count} fields of {kind.__name__}, got {len(plain)}")
        if not readers:
            return make(plain)
        values = list(plain)
        for at, reader in readers:
            values[at] = reader(values[at])
        return make(values)

    return read
