"""Filters and pagination of the list of datastreams.

A cursor contains the last name of a page, so concurrent creations and deletions do not shift pages: each
datastream that exists during the whole listing is on exactly one page.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal
from urllib.parse import quote, urlencode

from fastapi import Depends, Query

from mirror.coordination.stores.definitions import DamagedDefinition, Definitions, StoredDatastream
from mirror.errors import InvalidRequest
from mirror.model.bounds import shown
from mirror.model.datastreams.metadata import OWNER
from mirror.model.identifiers import ClusterRef

MOST: Final = 1_000
_DAMAGED: Final = "DAMAGED"
ListedStatus = Literal["INITIALIZING", "READY", "PAUSED", "STOPPING", "STOPPED", "DELETING", "DAMAGED"]
Listed = StoredDatastream | DamagedDefinition


@dataclass(frozen=True, slots=True)
class Listing:
    """Filters and page of a list request; None means no filter. `given`: the query parameters except the
    cursor."""

    given: Mapping[str, Sequence[str]]
    statuses: frozenset[str]
    owner: str | None
    source: str | None
    destination: str | None
    limit: int | None
    after: str | None

    def page_of(self, found: Definitions, named: Mapping[str, ClusterRef]) -> tuple[Sequence[Listed], str]:
        """Return one page, sorted by name, and the URL of the next page, which is empty on the last page.
        `named`: clusters by the names used in the request."""
        everything: list[Listed] = [*found.readable, *found.damaged]
        left = sorted((one for one in everything if self._has(one, named)), key=name_of)
        page = left[: self.limit]
        if len(page) == len(left):
            return page, ""
        query = {**self.given, "cursor": [_cursor_of(name_of(page[-1]))]}
        return page, f"/v1/datastreams?{urlencode(query, doseq=True, quote_via=quote)}"

    def _has(self, listed: Listed, named: Mapping[str, ClusterRef]) -> bool:
        is_damaged = isinstance(listed, DamagedDefinition)
        known = listed.last if isinstance(listed, DamagedDefinition) else listed.datastream
        status = _DAMAGED if is_damaged or known is None else known.status.value
        wanted = (
            (self.owner, known and known.metadata.get(OWNER)),
            (self.source and named[self.source], known and known.source),
            (self.destination and named[self.destination], known and known.destination),
        )
        return (
            (self.after is None or name_of(listed) > self.after)
            and (not self.statuses or status in self.statuses)
            and all(expected is None or expected == value for expected, value in wanted)
        )

    @property
    def clusters(self) -> frozenset[str]:
        """Names of clusters used in the request."""
        return frozenset(one for one in (self.source, self.destination) if one is not None)


async def _listing(
    owner: Annotated[str | None, Query(description="only datastreams of this owner")] = None,
    status: Annotated[
        list[ListedStatus] | None, Query(description="only datastreams with this status; may be repeated")
    ] = None,
    source: Annotated[
        str | None, Query(description="only datastreams from this source cluster (alias or address)")
    ] = None,
    destination: Annotated[
        str | None, Query(description="only datastreams to this destination cluster (alias or address)")
    ] = None,
    limit: Annotated[
        int | None, Query(ge=1, le=MOST, description="maximum number of datastreams per page (default: all)")
    ] = None,
    cursor: Annotated[
        str | None, Query(description="start of the page, from the Link header of the previous page")
    ] = None,
) -> Listing:
    """Return the requested list. Raises InvalidRequest for an invalid cursor."""
    given = {"owner": owner, "source": source, "destination": destination}
    written = {name: [value] for name, value in given.items() if value is not None}
    written |= {"status": [*status]} if status else {}
    written |= {"limit": [str(limit)]} if limit is not None else {}
    after = _name_of_cursor(cursor) if cursor is not None else None
    return Listing(written, frozenset(status or ()), owner, source, destination, limit, after)


ListingDep = Annotated[Listing, Depends(_listing)]


def name_of(listed: Listed) -> str:
    """Return the name of a definition, readable or damaged."""
    return listed.name if isinstance(listed, DamagedDefinition) else listed.datastream.name


def _cursor_of(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def _name_of_cursor(cursor: str) -> str:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        name = base64.b64decode(padded, altchars=b"-_", validate=True).decode("utf-8", "surrogatepass")
    except ValueError as error:
        raise InvalidRequest(
            f"invalid cursor {shown(cursor)}", advice="use the Link header of the previous response"
        ) from error
    return name
