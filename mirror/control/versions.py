"""Whether a change is of the version that is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mirror.coordination.stores.definitions import StoredDatastream
from mirror.errors import StaleVersion
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName, GroupName

READ_AGAIN: Final = "read it again, and make the change of what it is now"


def check_unchanged(stored: StoredDatastream, before: StoredDatastream | None) -> None:
    """Raises StaleVersion where the stored one is not the one that was read."""
    if before is not None and stored != before:
        raise stale(stored.datastream.name)


def stale(name: DatastreamName) -> StaleVersion:
    """For a change of a version that is not the present one."""
    return StaleVersion(f"datastream {name} has another version by now", advice=READ_AGAIN)


def stale_group(group: GroupName) -> StaleVersion:
    """For a change of those that share tasks, which are not the versions, or not those, that were read."""
    return StaleVersion(f"datastreams of {group} have other versions by now", advice=READ_AGAIN)


def with_state_of(stored: Datastream, definition: Datastream) -> Datastream:
    """A definition in the state in which the stored one is."""
    return replace(definition, status=stored.status, pauses=stored.pauses, halt=stored.halt)
