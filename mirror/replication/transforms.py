"""Transforms and filters: plug-ins that change or drop records.

A plug-in is an entry point of the group `headrace.transforms`: a function that takes the text after the colon
in `name:text`, and returns a `mirror.lane.rules.Transform`. A transform must be pure: after a crash, the same
record must yield the same result. Otherwise, the comparison with the destination would not recognize copied
records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from mirror.errors import ConfigError, InvalidRequest
from mirror.lane.rules import Transform
from mirror.model.reasons import legible, named
from mirror.protocol.batches.records import Record

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "headrace.transforms"
Factory = Callable[[str], Transform]


def drop_header(name: str) -> Transform:
    """Return the transform `drop-header:NAME`, which removes all headers of that name.

    Raises ConfigError without a name.
    """
    _require(name, "drop-header:NAME")
    wanted = name.encode()

    def apply(record: Record) -> Record:
        kept = tuple(header for header in record.headers if header[0] != wanted)
        return record if len(kept) == len(record.headers) else record._replace(headers=kept)

    return apply


def rename_header(names: str) -> Transform:
    """Return the transform `rename-header:OLD=NEW`, which renames all headers of that name.

    Raises ConfigError.
    """
    old, equals, new = names.partition("=")
    if not equals or not old or not new:
        raise ConfigError(f"rename-header: invalid argument {names!r}", advice="write rename-header:OLD=NEW")
    before, after = old.encode(), new.encode()

    def apply(record: Record) -> Record:
        headers = tuple((after if key == before else key, value) for key, value in record.headers)
        return record._replace(headers=headers)

    return apply


def mask_field(field: str) -> Transform:
    """Return the transform `mask-field:a.b`, which replaces that JSON field of values with `***`.

    Values that are not JSON pass unchanged. JSON nested too deep, or with too long numbers, raises the errors
    of the JSON library, because such a record must not pass unmasked. Raises ConfigError without a field.
    """
    if not all(field.split(".")):
        raise ConfigError(f"mask-field: invalid argument {field!r}", advice="write mask-field:a.b")
    *parents, last = field.split(".")

    def apply(record: Record) -> Record:
        if record.value is None:
            return record
        try:
            document = json.loads(record.value)
        except (json.JSONDecodeError, UnicodeDecodeError):
            return record
        place: Any = document
        for name in parents:
            place = place.get(name) if isinstance(place, dict) else None
        if not isinstance(place, dict) or last not in place:
            return record
        place[last] = "***"
        value = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        return record._replace(value=value)

    return apply


def keep_keys(prefix: str) -> Transform:
    """Return the filter `keep-keys:PREFIX`, which drops records with other keys.

    Raises ConfigError without a prefix.
    """
    _require(prefix, "keep-keys:PREFIX")
    wanted = prefix.encode()

    def apply(record: Record) -> Record | None:
        return record if record.key is not None and record.key.startswith(wanted) else None

    return apply


def _require(text: str, form: str) -> None:
    if not text:
        raise ConfigError(
            f"{form.partition(':')[0]} requires an argument after a colon", advice=f"write {form}"
        )


BUILT_IN: Final[dict[str, Factory]] = {
    "drop-header": drop_header,
    "rename-header": rename_header,
    "mask-field": mask_field,
    "keep-keys": keep_keys,
}


@cache
def load_transforms(names: tuple[str, ...]) -> tuple[Transform, ...]:
    """Return the transforms with the given names, in order. Raises ConfigError for an unknown name or an
    invalid argument."""
    return tuple(
        found(text) if callable(found) else _created_by(found, text) for found, text in map(_found, names)
    )


def check_transforms(names: Iterable[str]) -> None:
    """Check the names of transforms, and the arguments of built-in ones, without importing plug-ins.

    Raises InvalidRequest.
    """
    try:
        for found, text in map(_found, names):
            if callable(found):
                found(text)
    except ConfigError as error:
        raise InvalidRequest(error.message, advice=error.advice) from error


def _found(described: str) -> tuple[Factory | EntryPoint, str]:
    """Return the function or plug-in with this name, and the text after the colon."""
    name, _, text = described.partition(":")
    if name in BUILT_IN:
        return BUILT_IN[name], text

    from importlib.metadata import entry_points  # loads the email package: megabytes that few users need

    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        known = ", ".join(sorted({*BUILT_IN, *found}))
        raise ConfigError(f"unknown transform {name!r}", advice=f"available: {known}")
    return found[name], text


def _created_by(plug_in: EntryPoint, text: str) -> Transform:
    try:
        transform: Transform = plug_in.load()(text)
    except ConfigError:
        raise
    except BaseException as error:  # such as SystemExit
        raise ConfigError(
            f"cannot create transform {plug_in.name!r} ({plug_in.value}): {legible(named(error))}",
            advice="check the text after the colon and the transform's package",
        ) from error
    return transform
