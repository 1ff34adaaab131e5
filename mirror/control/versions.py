"""Checks that a change is based on the stored version."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mirror.coordination.stores.definitions import StoredDatastream
from mirror.errors import StaleVersion
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName, GroupName

READ_AGAIN: Final = "read it again and retry"


def check_unchanged(stored: StoredDatastream, before: StoredDatastream | None) -> None:
    """Raise StaleVersion if the stored version differs from the version that was read."""
    if before is not None and stored != before:
        raise stale(stored.datastream.name)


def stale(name: DatastreamName) -> StaleVersion:
    """Return the error for a change based on an outdated version."""
    return StaleVersion(f"datastream {name} was modified concurrently", advice=READ_AGAIN)


def stale_group(group: GroupName) -> StaleVersion:
    """Return the error for a change of a group that has changed concurrently."""
    return StaleVersion(f"datastreams of {group} were modified concurrently", advice=READ_AGAIN)


def with_state_of(stored: Datastream, definition: Datastream) -> Datastream:
    """Return the definition with the status and pauses of the stored definition."""
    return replace(definition, status=stored.status, pauses=stored.pauses, halt=stored.halt)
