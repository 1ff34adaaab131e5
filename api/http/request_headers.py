"""Headers of requests: If-Match with entity tags, Accept-Encoding (both RFC 9110), and Idempotency-Key.

If-Match names the version that a change modifies. A creation that is repeated with the same Idempotency-Key
(draft-ietf-httpapi-idempotency-key) creates nothing new.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Final

from fastapi import Depends, Header, Request
from pydantic import BaseModel

from mirror.control.handlers import Control
from mirror.control.outcomes import stale, stale_group
from mirror.coordination.stores.definitions import DamagedDefinition, StoredDatastream
from mirror.errors import InvalidRequest, VersionNotGiven
from mirror.model.bounds import shown
from mirror.model.datastreams.creation import Creation, creation_of
from mirror.model.identifiers import DatastreamName, GroupName

_ANY: Final = frozenset({"*"})
_IF_MATCH: Final = "If-Match"
_TAG: Final = re.compile(r'[ \t,]*((?:W/)?"[\x21\x23-\x7e\x80-\xff]*")[ \t]*(?=,|$)')
"""Matches an entity tag in a list of tags, with the preceding separators."""
_BLANKS: Final = " \t,"
_DIGITS: Final = 32

Tags = frozenset[str]


async def _tags_given(
    request: Request,
    _: Annotated[
        str | None,
        Header(
            alias=_IF_MATCH,
            description="ETag of the version that was read; the change fails if the definition was modified"
            " since. * changes any version",
        ),
    ] = None,
) -> Tags | None:
    """Return the entity tags of all If-Match headers, which form one list.

    Raises InvalidRequest for a malformed list.
    """
    given = request.headers.getlist(_IF_MATCH)
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
            f"invalid header {_IF_MATCH} {shown(text)}: not a list of entity tags",
            advice='send the ETag of a response including its quotes, "1795239597222-7", or *',
        )
    return frozenset(found)


def etag_of(stored: StoredDatastream) -> str:
    """Return the entity tag of a definition. The tag includes the creation time, because versions start again
    at 0 when a datastream is deleted and created again."""
    return f'"{stored.datastream.created_ms or 0}-{stored.version}"'


def etag_of_group(members: Sequence[StoredDatastream]) -> str:
    """Return the entity tag of a group's datastreams, which are sorted by name. The tag changes if a
    datastream is changed, added or removed."""
    versions = [[member.datastream.name, etag_of(member)] for member in members]
    return f'"{hashlib.sha256(json.dumps(versions).encode()).hexdigest()[:_DIGITS]}"'


def named_members(
    control: Control, group: GroupName, tags: Tags | None
) -> tuple[StoredDatastream, ...] | None:
    """Return the datastreams of a group if If-Match names their version; None if it accepts any version.

    The tag of their current versions must be among `tags`. Raises NotFound, DamagedState, StaleVersion.
    """
    if tags is None or tags == _ANY:
        return None
    found = control.groups.members(group)
    if etag_of_group(found) not in tags:
        raise stale_group(group)
    return found


def named_version(control: Control, name: DatastreamName, tags: Tags | None) -> StoredDatastream | None:
    """Return a definition if If-Match names its version; None if it accepts any version.

    The tag of the current version must be among `tags`. A damaged definition has no tag. Raises NotFound,
    StaleVersion.
    """
    if tags is None or tags == _ANY:
        return None
    found = control.read(name)
    if not _is_among(found, tags):  # this replica of the store may lag behind the tag
        control.catch_up()
        found = control.read(name)
    if isinstance(found, DamagedDefinition) or not _is_among(found, tags):
        raise stale(name)
    return found


def named_among(
    tags: Tags | None, name: DatastreamName, read: Callable[[], StoredDatastream]
) -> StoredDatastream | None:
    """Return the definition from `read` if If-Match names its version; None if it accepts any version.

    The tag of the result must be among `tags`. Raises StaleVersion and the errors of `read`.
    """
    if tags is None or tags == _ANY:
        return None
    found = read()
    if not _is_among(found, tags):
        raise stale(name)
    return found


def version_to_change(
    control: Control, name: DatastreamName, tags: Tags | None
) -> tuple[StoredDatastream, bool]:
    """Return the definition to change, and whether If-Match restricts the change to its version.

    Raises VersionNotGiven, NotFound, DamagedState, StaleVersion.
    """
    named = named_version(control, name, tags)
    stored = named or control.stored(name)
    if tags is None:
        raise VersionNotGiven(
            f"the request to change datastream {name} has no version",
            advice="read the datastream and send its ETag as If-Match, or If-Match: * to change any version",
        )
    return stored, named is not None


def _is_among(found: StoredDatastream | DamagedDefinition, tags: Tags) -> bool:
    return isinstance(found, StoredDatastream) and etag_of(found) in tags


_IDEMPOTENCY_KEY: Final = "Idempotency-Key"
_LONGEST: Final = 255
_STRING: Final = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])+)"')
"""Matches a quoted string of RFC 8941, the format that the draft specifies."""
_BARE: Final = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+")
"""Matches a string without quotes, which many clients send."""
_ESCAPE: Final = re.compile(r"\\(.)")


async def _key_given(
    request: Request,
    _: Annotated[
        str | None,
        Header(
            alias=_IDEMPOTENCY_KEY,
            description="unique text chosen by the caller, for example a UUID. A repeated request of the same"
            " principal with the same key and body is the same creation and returns the stored datastream",
        ),
    ] = None,
) -> str | None:
    """Return the idempotency key of the request, if any. Raises InvalidRequest for a malformed key."""
    given = request.headers.getlist(_IDEMPOTENCY_KEY)
    return _key_of(given) if given else None


IdempotencyKey = Annotated[str | None, Depends(_key_given)]


def _key_of(given: list[str]) -> str:
    text = given[0].strip(" \t")
    found = _STRING.fullmatch(text) or _BARE.fullmatch(text)
    key = _ESCAPE.sub(r"\1", found[1]) if found and found.re is _STRING else text
    if len(given) > 1 or not found or len(key) > _LONGEST:
        raise InvalidRequest(
            f"invalid header {_IDEMPOTENCY_KEY} {shown(', '.join(given))}",
            advice=f'send one quoted key of 1 to {_LONGEST} printable ASCII characters: "8e03978e-40d5-43dd"',
        )
    return key


def creation_named(key: str | None, body: BaseModel, principal: str) -> Creation | None:
    """Return the idempotency record of a creation by this principal; None without a key. Fields with default
    values count as omitted."""
    if key is None:
        return None
    return creation_of(_IDEMPOTENCY_KEY, key, body.model_dump(mode="json", exclude_defaults=True), principal)


_NEVER: Final = re.compile(r"q=0(\.0*)?")


def accepts_gzip(request: Request) -> bool:
    """Return whether the client accepts a response that is compressed with gzip (RFC 9110)."""
    for coding in ",".join(request.headers.getlist("accept-encoding")).lower().split(","):
        name, _, weight = (part.strip() for part in coding.partition(";"))
        if name == "gzip":
            return not _NEVER.fullmatch(weight)
    return False
