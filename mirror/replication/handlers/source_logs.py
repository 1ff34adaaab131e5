"""Handles source logs that are missing, recreated, truncated, or diverged from the copied records."""

from __future__ import annotations

from typing import Final

from mirror.errors import EpochDiverged, HeadraceError, SourceTruncated, TopicMissing, TopicRecreated
from mirror.lane.lane import Lane
from mirror.loggers import get_logger
from mirror.model.datastreams.policy import OnLoss
from mirror.protocol.codes import TRANSIENT, Code
from mirror.protocol.control.offsets import EARLIEST, LATEST
from mirror.replication.context import EngineContext
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.wording import counted

_log = get_logger(__name__)
_RETRY_SECONDS: Final = 0.2


class SourceLogs:
    """Decides how to continue after a source log was recreated, truncated, or has diverged."""

    def __init__(self, context: EngineContext, lanes: LaneRegistry, runner: LaneRunner) -> None:
        self._context = context
        self._lanes = lanes
        self._runner = runner
        self._ends = lanes.ends
        self._delivery = lanes.delivery
        self._unsaved = lanes.unsaved

    def verify(self, lane: Lane) -> None:
        """Check with refreshed metadata that the source topic was not recreated, before fetching again."""
        if not lane.may_read:
            return
        problem = self.problem(lane)
        if isinstance(problem, TopicRecreated):
            self._runner.restart(lane, str(problem))
        elif problem is not None:
            self._runner.pause(lane, problem, drain=True)
        else:
            self._lanes.source(lane).attach(lane)

    def problem(self, lane: Lane) -> HeadraceError | None:
        """Return the error if refreshed metadata of the source topic prevents reading, or None."""
        cluster = self._lanes.source(lane).cluster
        name, number = lane.key.partition
        topic = cluster.topics.get(name)
        if topic is None or topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            return TopicMissing(
                f"topic {name} does not exist on {cluster.name}",
                advice="create it or remove it from the datastream",
            )
        if topic.error and topic.error not in TRANSIENT:
            return cluster.error(
                topic.error, f"cannot describe topic {name} on {cluster.name}", f"Read on topic {name}"
            )
        if not topic.error and number >= len(topic.leaders):
            return TopicMissing(
                f"topic {name} on {cluster.name} has only {counted(len(topic.leaders), 'partition')}"
            )
        before, now = lane.progress.source.cluster_id, cluster.cluster_id
        if before and now and before != now:
            return TopicRecreated(
                f"{cluster.name} is another cluster ({now}) than the one from which topic {name} was"
                f" copied ({before})",
                advice="change the datastream's destination name, or its name and"
                " system.taskPrefix; on_loss = continue appends the new topic to the copied records",
            )
        identity = cluster.topic_id(name)
        if lane.progress.source.topic_id and identity and identity != lane.progress.source.topic_id:
            return TopicRecreated(
                f"topic {name} on {cluster.name} was deleted and recreated",
                advice="on_loss = continue copies the new topic from its beginning",
            )
        return None

    async def out_of_range(self, lane: Lane) -> None:
        """Determine why the lane's position is out of range: it was deleted, or the log was replaced."""
        place, cluster = lane.key.partition, self._lanes.source(lane).cluster
        try:
            await cluster.refresh([place.topic])
            start = (await cluster.offsets({place: EARLIEST}))[place]
            end = (await cluster.offsets({place: LATEST}))[place]
        except HeadraceError as error:
            self._runner.pause(lane, error, drain=True)
            return
        if not lane.may_read:
            return
        problem = self.problem(lane)
        if problem is not None:
            self.verify(lane)
        elif start.error or end.error:
            self._lanes.source(lane).relocate([lane])
        elif lane.read.position < start.offset:
            self._truncated(lane, start.offset)
        elif lane.read.position > end.offset or 0 <= end.leader_epoch < lane.progress.source.leader_epoch:
            # A leader with an older epoch than the lane's does not have the copied records.
            self.diverged(lane, end.leader_epoch, min(lane.read.position, end.offset))
        else:
            self._runner.later(lane, _RETRY_SECONDS, self._read_again)

    def _read_again(self, lane: Lane) -> None:
        if lane.reader is None:
            self._runner.read_on(lane)

    def _truncated(self, lane: Lane, log_start: int) -> None:
        lost = f"offsets {lane.read.position} to {log_start - 1}"
        missing = f"{lost} of {lane.key.partition} are gone from the source"
        if lane.spec.policy.on_loss is OnLoss.HALT:
            error = SourceTruncated(missing, advice="on_loss = continue records the gap and continues")
            self._runner.pause(lane, error, drain=True)
            return
        _log.warning("continuing after a gap", **lane.key.log_fields, reason=missing)
        self._delivery.lose(lane, log_start, missing)
        self._runner.read_on(lane)

    def diverged(self, lane: Lane, epoch: int, end: int, *, common: int = -1) -> None:
        """Handle a leader whose log differs from the copied records from offset `end` on. `common`: leader
        epoch of the record before `end`, -1 if unknown. The leader epoch reveals a difference before
        `end`."""
        sentence = (
            f"the source log of {lane.key.partition} diverges at offset {end} (leader epoch {epoch}) from the"
            f" records copied up to {lane.read.position}: the destination has records that the source lost"
        )
        if lane.spec.policy.on_loss is OnLoss.HALT:
            error = EpochDiverged(sentence, advice="on_loss = continue copies the new log from that offset")
            self._runner.pause(lane, error, drain=True)
            return
        _log.warning("copying the new log", **lane.key.log_fields, reason=sentence)
        self._lanes.source(lane).detach(lane)
        self._runner.spawn(lane, self._follow_new_history(lane, end, sentence, common))

    async def _follow_new_history(self, lane: Lane, end: int, sentence: str, common: int) -> None:
        while not lane.queue.is_drained:
            await self._context.loop.sleep(_RETRY_SECONDS)
            if lane.reader is not None:
                return  # the lane was rewound, and may have read the new log since then
        if lane.may_read:
            if (
                lane.read.position >= end
            ):  # otherwise the lane has dropped records, and first reads them again
                self.begin_life(lane, end, sentence, same_log=True, leader_epoch=common)
            self._runner.read_on(lane)

    def begin_life(
        self, lane: Lane, position: int, sentence: str, *, same_log: bool, leader_epoch: int = -1
    ) -> None:
        """Switch the lane to a recreated source log, or to another history of it; see
        `UnsavedProgress.begin_life`."""
        self._unsaved.begin_life(lane, position, sentence, same_log=same_log, leader_epoch=leader_epoch)
        self._ends.begin_log(lane)
