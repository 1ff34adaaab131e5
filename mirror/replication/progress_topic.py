"""Creates, checks and reads the progress topic of one destination cluster."""

from __future__ import annotations

from typing import Final

from mirror.client.cluster import Cluster
from mirror.client.log_reader import PartitionRange
from mirror.errors import HeadraceError, Unreachable, UnsafeProgressTopic
from mirror.loggers import get_logger
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import TRANSIENT, Code
from mirror.protocol.control.offsets import EARLIEST, LATEST
from mirror.protocol.control.topics import create_topic, describe_settings
from mirror.replication.stored_progress import StoredProgress

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

    @property
    def count(self) -> int:
        """Number of partitions of the progress topic."""
        return len(self._cluster.topics[self._name].leaders)

    async def create(self) -> None:
        """Create the progress topic if it is missing, and wait for its leaders. Raises Unreachable,
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
        if not topic.is_ready:
            raise Unreachable(f"topic {self._name} has partitions without a leader")

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
        """Read the records since the last read, and all records of lanes that were requested since then."""
        numbers = range(self.count)
        ends = await self._cluster.offsets({TopicPartition(self._name, number): LATEST for number in numbers})
        for place, answer in ends.items():
            if answer.error:
                right = f"Read on topic {place.topic}"
                raise self._cluster.error(answer.error, f"cannot read the end offset of {place}", right)
        unseen, again = self.stored.begin_read(self.count)
        try:
            await self._cluster.loop.together(
                self._read(place, end.offset, again=place.partition in again) for place, end in ends.items()
            )
        except HeadraceError:
            self.stored.abandon_read(unseen)
            raise
        self._report_growth()

    def _report_growth(self) -> None:
        if self.stored.is_grown and self._reported_count != self.count:
            self._reported_count = self.count
            _log.warning(
                "progress topic has more partitions: each starting lane reads all of them",
                topic=self._name,
                cluster=self._cluster.name,
                partitions=self.count,
            )

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
