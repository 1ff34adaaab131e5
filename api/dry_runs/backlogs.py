"""Backlog of the lanes that a change would start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from api.services import Services
from mirror.coordination.effects import waiting_records
from mirror.coordination.stores.problems import reason_of
from mirror.errors import HeadraceError, NothingStored
from mirror.instance.world_view import UpdatePreview
from mirror.jobs.stored_lanes import StoredLanes
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, GroupName

_log = structlog.get_logger(__name__)
_NOTHING: Final = StoredLanes({}, {})


def backlogs_of(preview: UpdatePreview, services: Services) -> Mapping[LaneKey, int]:
    """Return the number of waiting records by lane. Omits lanes whose source or stored progress is
    unavailable: a dry run does not depend on it."""
    stored: dict[tuple[ClusterRef, GroupName], StoredLanes | None] = {}
    found = {}
    for key, position in preview.positions.items():
        spec = preview.starting[key]
        place = spec.destination, key.group
        if place not in stored:
            stored[place] = _stored(services, *place)
        lanes = stored[place]
        if lanes is None:
            continue
        progress, name = lanes.lanes.get(key), spec.destination_topic
        is_own = progress is not None and progress.is_of(
            name, lanes.topic_ids.get(name) or b"", spec.restart_ms
        )
        checkpoint = progress.next_offset if progress is not None and is_own else None
        waiting = waiting_records(spec, checkpoint, position)
        if waiting is not None:
            found[key] = waiting
    return found


def _stored(services: Services, destination: ClusterRef, group: GroupName) -> StoredLanes | None:
    try:
        return services.progress(destination, group)
    except NothingStored:
        return _NOTHING
    except HeadraceError as error:
        _log.info("cannot read checkpoints", cluster=destination, group=group, reason=reason_of(error))
        return None
