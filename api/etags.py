"""Versions of definitions as entity tags (RFC 9110): a change says which version it is a change of."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Header

from mirror.control.handlers import stale
from mirror.coordination.stores.definitions import StoredDatastream
from mirror.errors import VersionNotGiven
from mirror.model.datastreams.datastream import Datastream

_ANY: Final = "*"
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description="the ETag of the version that was read, so that no other change is overwritten unseen;"
        " * for whichever is there",
    ),
]


def etag_of(datastream: Datastream, version: int) -> str:
    """A datastream that was deleted and created again has other tags than before: a version alone begins at 0
    again."""
    return f'"{datastream.created_ms or 0}-{version}"'


def is_exact(stored: StoredDatastream, if_match: str | None) -> bool:
    """Whether If-Match names this version; false where any version will do. Raises VersionNotGiven,
    StaleVersion."""
    name = stored.datastream.name
    if if_match is None:
        raise VersionNotGiven(
            f"the change of datastream {name} does not say of which version",
            advice="read it, and send its ETag as If-Match; If-Match: * changes whichever is there",
        )
    if if_match.strip() == _ANY:
        return False
    present = etag_of(stored.datastream, stored.version)
    if present not in (tag.strip() for tag in if_match.split(",")):
        raise stale(name)
    return True
