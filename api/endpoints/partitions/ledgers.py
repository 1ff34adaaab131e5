"""Progress of a datastream's partitions, as REST responses."""

from __future__ import annotations

from dataclasses import replace

from api.schemas.progress import LaneProgressAnswer, NotCopied
from api.services import Services
from mirror.coordination.reconcile import copied
from mirror.instance.uncopied.partitions import UncopiedPartition, UncopiedState, paused_of
from mirror.instance.uncopied.watch import UncopiedLane
from mirror.jobs.stored_lanes import StoredLanes
from mirror.model.datastreams.datastream import Datastream
from mirror.model.topics import TopicPartition


def progress_of(
    datastream: Datastream, stored: StoredLanes, services: Services, *, with_map: bool
) -> list[LaneProgressAnswer]:
    """Return one answer for each partition copied to the datastream's destination topics, and for each
    uncopied partition known to this instance."""
    found: dict[TopicPartition, LaneProgressAnswer] = {}
    for key, one in lanes_of(datastream, stored).lanes.items():
        answer = LaneProgressAnswer.from_progress(key, one, with_map=with_map)
        answer.destination_is_current = stored.is_current(one)
        found[key.partition] = answer
    uncopied = _uncopied(datastream, found, services)
    for partition in uncopied.keys() - found.keys():
        topic = datastream.naming.destination(partition.topic)
        found[partition] = LaneProgressAnswer.without_progress(partition, topic)
    for partition, lane in uncopied.items():
        found[partition].not_copied = NotCopied.from_uncopied(lane)
    return [found[partition] for partition in sorted(found)]


def lanes_of(datastream: Datastream, stored: StoredLanes) -> StoredLanes:
    """Return the lanes that copy the datastream's selection to its destination topics, without lanes of other
    datastreams that share its tasks, and of a former datastream of the same name."""
    naming, selection = datastream.naming, datastream.selection
    lanes = {
        key: one
        for key, one in stored.lanes.items()
        if selection.matches(key.partition.topic)
        and one.target_topic in ("", naming.destination(key.partition.topic))
    }
    return replace(stored, lanes=lanes)


def _uncopied(
    datastream: Datastream, found: dict[TopicPartition, LaneProgressAnswer], services: Services
) -> dict[TopicPartition, UncopiedLane]:
    """Return uncopied partitions: all on the leader; elsewhere only those implied by the definition and the
    plan."""
    if services.status.is_leading:
        mine = (one for one in services.status.uncopied if one.what.datastream == datastream.name)
        return {one.what.partition: one for one in mine}
    members = [one for one in services.status.datastreams if one.group == datastream.group]
    planned = copied(services.plan(), datastream.group, members)
    paused = paused_of(datastream, found.keys() - planned if datastream.status.is_halted else found)
    missing = found.keys() - planned - paused.keys() if datastream.status.is_mirrored else set()
    why, name, group = "no task", datastream.name, datastream.group
    unplaced = {one: UncopiedPartition(name, group, one, UncopiedState.UNPLACED, why) for one in missing}
    return {partition: UncopiedLane(what, None) for partition, what in {**paused, **unplaced}.items()}
