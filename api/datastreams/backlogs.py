"""How many records wait for the lanes that a change would start."""

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
    """Of those of which it is known: where the source answers, and where the destination says whether
    anything is stored of them. A change is shown without it as well."""
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
        _log.info("checkpoints not known", cluster=destination, group=group, reason=reason_of(error))
        return None
