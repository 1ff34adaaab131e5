"""Creates, checks and reads the progress topic of one destination cluster."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final

from mirror.client.cluster import Cluster
from mirror.client.log_reader import PartitionRange, available_offsets, offset_error
from mirror.errors import HeadraceError, Unreachable, UnsafeProgressTopic
from mirror.loggers import get_logger
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import TRANSIENT, Code
from mirror.protocol.control.offsets import EARLIEST, LATEST, OffsetAnswer
from mirror.protocol.control.topics import create_topic, describe_settings
from mirror.replication.stored_progress import StoredProgress
from mirror.wording import first_few

PARTITIONS: Final = 8
SETTINGS: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.ms": "600000",
    "compression.type": "producer",
    "message.timestamp.type": "LogAppendTime",  # so that acknowledgements carry the brokers' time
}
_log = get_logger(__name__)


class ProgressTopic:
    """Creates and reads the progress topic of one cluster. `stored`: records that were read so far."""

    def __init__(self, cluster: Cluster, name: str, replication: int) -> None:
        self.stored = StoredProgress()
        self._cluster = cluster
        self._name = name
        self._replication = replication
        self._reported_count = 0
        self._unreadable: Mapping[int, HeadraceError] = {}
        """Partitions that could not be read in the last read, with the reasons."""

    @property
    def count(self) -> int:
        """Number of partitions of the progress topic."""
        return len(self._cluster.topics[self._name].leaders)

    async def create(self) -> None:
        """Create the progress topic if it is missing, and wait for a leader. Raises Unreachable,
        NotAuthorized, Refused."""
        await self._cluster.patiently(self._create)

    async def _create(self) -> None:
        await self._cluster.refresh([self._name])
        topic = self._cluster.topics[self._name]
        if topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            call = create_topic(self._name, PARTITIONS, self._replication, SETTINGS)
            outcome = await self._cluster.ask_controller(call)
            if outcome.error not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
                raise self._with_rights(outcome.error, "cannot create", outcome.message)
            raise Unreachable(f"topic {self._name} was just created and is not ready yet")
        if topic.error and topic.error not in TRANSIENT:
            raise self._with_rights(topic.error, "cannot describe")
        if all(leader < 0 for leader, _ in topic.leaders):
            raise Unreachable(f"no partition of topic {self._name} has a leader")

    def _with_rights(self, code: int, doing: str, message: str = "") -> HeadraceError:
        right = f"Create, Read and Write on topic {self._name}"
        return self._cluster.error(
            code, f"{doing} topic {self._name} on {self._cluster.name}", right, message
        )

    async def problem(self) -> UnsafeProgressTopic | None:
        """Return the reason why the settings of the progress topic may lose progress, or None. Without
        permission to describe the topic, the settings are unknown, and the result is None."""
        found = await self._cluster.ask(describe_settings([self._name]))
        policy = found.get(self._name, {}).get("cleanup.policy")
        if policy is None or "delete" not in policy.value:
            return None
        return UnsafeProgressTopic(
            f"topic {self._name} on {self._cluster.name} has cleanup.policy={policy.value}: it deletes"
            " checkpoints over time",
            advice="set cleanup.policy=compact",
        )

    async def read(self) -> None:
        """Read the records since the last read, and all records of lanes that were requested since then.

        Skips partitions that cannot be read; `require_read` reports them. Raises the error of a partition if
        no partition can be read.
        """
        count = self.count
        unseen, again = self.stored.begin_read(count)
        unreadable: dict[int, HeadraceError] = {}
        try:
            ends = await available_offsets(
                self._cluster,
                [TopicPartition(self._name, number) for number in range(count)],
                LATEST,
                [TopicPartition(self._name, number) for number in self._unreadable],
            )
        except HeadraceError:
            self.stored.abandon_read(unseen)
            raise
        await self._cluster.loop.together(
            self._try_read(place, end, unreadable, again=place.partition in again)
            for place, end in ends.items()
        )
        if unreadable.keys() - self._unreadable.keys():
            _log.warning(
                "partitions of the progress topic unreadable",
                topic=self._name,
                cluster=self._cluster.name,
                partitions=first_few([str(number) for number in sorted(unreadable)]),
                reason=str(next(iter(unreadable.values()))),
            )
        self._unreadable = unreadable
        self.stored.abandon_read({main for main in unseen if self.read_error(main) is not None})
        if len(unreadable) == count:
            raise unreadable[0]
        self._report_growth()

    def require_read(self, main: bytes | None = None) -> None:
        """Raise the error of an unreadable partition that may have the progress of the lane with this main
        key; with None, of any unreadable partition."""
        error = self.read_error(main)
        if error is not None:
            raise error.with_traceback(None)

    def read_error(self, main: bytes | None = None) -> HeadraceError | None:
        """Return why the records with this main key are unknown after the last read, or None; without a key,
        why any record is unknown.

        A lane's records are in the partition of its hash, unless partitions were added since its first
        record. Only records show that, so a topic with another partition count than `create` sets may have
        grown as long as a partition is unreadable.
        """
        if not self._unreadable:
            return None
        if main is None or self._may_be_elsewhere(main):
            return next(iter(self._unreadable.values()))
        return self._unreadable.get(zlib.crc32(main) % self.count)

    def _may_be_elsewhere(self, main: bytes) -> bool:
        return self.stored.is_grown or (self.count != PARTITIONS and not self.stored.holders(main))

    def _report_growth(self) -> None:
        if self.stored.is_grown and self._reported_count != self.count:
            self._reported_count = self.count
            _log.warning(
                "progress topic has more partitions: each starting lane reads all of them",
                topic=self._name,
                cluster=self._cluster.name,
                partitions=self.count,
            )

    async def _try_read(
        self,
        place: TopicPartition,
        end: OffsetAnswer,
        unreadable: dict[int, HeadraceError],
        *,
        again: bool,
    ) -> None:
        try:
            if end.error:
                raise offset_error(self._cluster, place, end.error)
            await self._read(place, end.offset, again=again)
        except HeadraceError as error:
            unreadable[place.partition] = error

    async def _read(self, place: TopicPartition, end: int, *, again: bool) -> None:
        part = None if again else self.stored.part(place.partition, end)
        if part is None:
            first = (await self._cluster.offsets({place: EARLIEST}))[place].offset
            part = self.stored.new_part(place.partition, self.count, max(first, 0))
        span = PartitionRange(self._cluster, place, part.read_up_to, end, on_damage=part.note_damage)
        async for batch, header in span.batches():
            if header is not None:
                part.take(batch, header)
            part.read_up_to = span.position
        part.read_up_to = max(span.position, end)
        self.stored.put(place.partition, part)
