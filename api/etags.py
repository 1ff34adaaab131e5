"""Versions of definitions as entity tags (RFC 9110): a change says which version it is a change of."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Final

from fastapi import Depends, Header, Request

from mirror.control.handlers import Control
from mirror.control.versions import stale, stale_group
from mirror.coordination.stores.definitions import DamagedDefinition, StoredDatastream
from mirror.errors import InvalidRequest, VersionNotGiven
from mirror.model.bounds import shown
from mirror.model.identifiers import DatastreamName, GroupName

_ANY: Final = frozenset({"*"})
_HEADER: Final = "If-Match"
_TAG: Final = re.compile(r'[ \t,]*((?:W/)?"[\x21\x23-\x7e\x80-\xff]*")[ \t]*(?=,|$)')
"""An entity tag and what may be before it in a list."""
_BLANKS: Final = " \t,"
_DIGITS: Final = 32

Tags = frozenset[str]


async def _tags_given(
    request: Request,
    _: Annotated[
        str | None,
        Header(
            alias=_HEADER,
            description="the ETag of the version that was read, so that no other change is overwritten"
            " unseen; * for whichever is there",
        ),
    ] = None,
) -> Tags | None:
    """Several headers of the name are one list. Raises InvalidRequest for what is no list of tags."""
    given = request.headers.getlist(_HEADER)
    return _tags_of(", ".join(given)) if given else None


IfMatch = Annotated[Tags | None, Depends(_tags_given)]


def _tags_of(text: str) -> Tags:
    if text.strip(_BLANKS) == "*":
        return _ANY
    found, at = set(), 0
    while match := _TAG.match(text, at):
        found.add(match[1])
        at = match.end()
    if not found or text[at:].strip(_BLANKS):
        raise InvalidRequest(
            f"the header {_HEADER} {shown(text)} holds no entity tags",
            advice='send the ETag of an answer as it is, with its quotes: "1795239597222-7"; or *',
        )
    return frozenset(found)


def etag_of(stored: StoredDatastream) -> str:
    """A datastream that was deleted and created again has other tags than before: a version alone begins at 0
    again."""
    return f'"{stored.datastream.created_ms or 0}-{stored.version}"'


def etag_of_group(members: Sequence[StoredDatastream]) -> str:
    """Of all that share tasks, by name: another one when one of them changes, comes or goes."""
    versions = [[one.datastream.name, etag_of(one)] for one in members]
    return f'"{hashlib.sha256(json.dumps(versions).encode()).hexdigest()[:_DIGITS]}"'


def named_members(
    control: Control, group: GroupName, tags: Tags | None
) -> tuple[StoredDatastream, ...] | None:
    """All that share tasks, if their present version is one of these; None where any will do. Raises
    NotFound, DamagedState, StaleVersion."""
    if tags is None or tags == _ANY:
        return None
    found = control.groups.members(group)
    if etag_of_group(found) not in tags:
        raise stale_group(group)
    return found


def named_version(control: Control, name: DatastreamName, tags: Tags | None) -> StoredDatastream | None:
    """The present version, if it is one of these; None where any will do. A damaged definition has no tag.
    Raises NotFound, StaleVersion."""
    if tags is None or tags == _ANY:
        return None
    found = control.look(name)
    if not _is_among(found, tags):  # the tag may be newer than what the server of ZooKeeper here has
        control.catch_up()
        found = control.look(name)
    if isinstance(found, DamagedDefinition) or not _is_among(found, tags):
        raise stale(name)
    return found


def named_among(
    tags: Tags | None, name: DatastreamName, read: Callable[[], StoredDatastream]
) -> StoredDatastream | None:
    """What is read, if its version is one of these; None where any will do. Raises StaleVersion and what
    reading raises."""
    if tags is None or tags == _ANY:
        return None
    found = read()
    if not _is_among(found, tags):
        raise stale(name)
    return found


def version_to_change(
    control: Control, name: DatastreamName, tags: Tags | None
) -> tuple[StoredDatastream, bool]:
    """What a change is to be made of, and whether it must be this very version. Raises VersionNotGiven,
    NotFound, DamagedState, StaleVersion."""
    named = named_version(control, name, tags)
    stored = named or control.stored(name)
    if tags is None:
        raise VersionNotGiven(
            f"the change of datastream {name} does not say of which version",
            advice="read it, and send its ETag as If-Match; If-Match: * changes whichever is there",
        )
    return stored, named is not None


def _is_among(found: StoredDatastream | DamagedDefinition, tags: Tags) -> bool:
    return isinstance(found, StoredDatastream) and etag_of(found) in tags
