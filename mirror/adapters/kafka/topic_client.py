"""Reads and writes one topic, for callers on other threads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, TypeVar

from mirror.adapters.kafka.access import usable_access
from mirror.adapters.kafka.loop_thread import LoopThread
from mirror.adapters.kafka.session import REQUEST_SECONDS, ClusterSession
from mirror.adapters.settings import KafkaCluster
from mirror.client.administration.creation import create_adjusted
from mirror.client.cluster import Cluster
from mirror.client.log_reader import PartitionRange, available_offsets, offset_error, topic_partitions
from mirror.client.log_writer import write_patiently
from mirror.errors import CorruptData, HeadraceError, Unreachable
from mirror.loggers import get_logger
from mirror.model.topics import TopicDescription, TopicPartition
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.legacy import read_message
from mirror.protocol.batches.partitioner import partitioned_batches
from mirror.protocol.batches.records import Record, read_batch
from mirror.protocol.codes import MISSING
from mirror.protocol.control.offsets import LATEST
from mirror.wording import first_few

_log = get_logger(__name__)
_T = TypeVar("_T")
_LONGEST_SECONDS: Final = 300.0
"""Maximum seconds of a call. Each request has a shorter timeout, so only a large topic takes this long."""


@cache
def _shared_loop() -> LoopThread:
    """Return the event loop that all topic clients of this process share. Its thread also decodes records."""
    return LoopThread("topics")


class TopicClient:
    """Client for one topic. The client connects with the first call, and disconnects after a minute without
    calls.

    `request_seconds`: timeout of a request, and of all retries of a call. Thread-safe.
    """

    def __init__(
        self, cluster: KafkaCluster, topic: str, client_id: str, request_seconds: float = REQUEST_SECONDS
    ) -> None:
        self.topic = topic
        self._loop = _shared_loop()
        self._session = ClusterSession(
            cluster.bootstrap_servers,
            client_id,
            partial(usable_access, cluster),
            request_seconds=request_seconds,
        )
        self._has_left_out = False
        self._unavailable: dict[TopicPartition, HeadraceError] = {}
        """Partitions that were unavailable when they were last read, with the reasons."""

    def ask(
        self,
        operation: str,
        question: Callable[[Cluster], Coroutine[Any, Any, _T]],
        seconds: float = _LONGEST_SECONDS,
    ) -> _T:
        """Run a call on the topic, with retries after transient errors.

        Raises the errors of the call; Unreachable; NotAuthorized; TimedOut after `seconds`. After a timeout,
        the call continues, and its result is discarded.
        """
        return self._loop.ask(
            f"{operation} {self.topic}", seconds, lambda loop: self._session.ask(loop, question)
        )

    def close(self) -> None:
        """Close the connections in the background; the next call opens new connections."""
        self._loop.post(lambda _: self._session.close())

    def ends(self) -> Mapping[int, int]:
        """Return the end offset of each available partition. Raises TopicMissing, Unreachable,
        NotAuthorized."""
        return self.ask("cannot read the ends of", self._ends)

    async def _ends(self, cluster: Cluster) -> dict[int, int]:
        ends = await self.available_offsets(cluster, await self.partitions(cluster), LATEST)
        return {place.partition: end for place, end in ends.items()}

    async def available_offsets(
        self, cluster: Cluster, places: Collection[TopicPartition], when: int
    ) -> dict[TopicPartition, int]:
        """Return the offset of each available partition at a timestamp (see `list_offsets`). Only committed
        records count.

        Logs partitions that have become unavailable, and those that are available again. Raises Unreachable
        if no partition is available; NotAuthorized, Refused.
        """
        answers = await available_offsets(cluster, places, when, self._unavailable, committed=True)
        failed = {
            place: offset_error(cluster, place, answer.error)
            for place, answer in answers.items()
            if answer.error
        }
        for error in failed.values():
            if len(failed) == len(answers) or not isinstance(error, Unreachable):
                raise error
        if failed or self._unavailable:
            self._note_available([place for place in answers if place not in failed])
            self.note_unavailable(failed)
        return {place: answer.offset for place, answer in answers.items() if place not in failed}

    def require_available(self) -> None:
        """Raise the error of a partition that was unavailable when it was last read, if any."""
        for error in self._unavailable.values():
            raise error.with_traceback(None)

    def note_unavailable(self, errors: Mapping[TopicPartition, HeadraceError]) -> None:
        """Log partitions that cannot be read, unless they were unavailable before."""
        new = [place for place in errors if place not in self._unavailable]
        self._unavailable |= errors
        if new:
            named, reason = first_few([str(place.partition) for place in new]), str(errors[new[0]])
            _log.warning("unavailable partitions skipped", topic=self.topic, partitions=named, reason=reason)

    def _note_available(self, places: Collection[TopicPartition]) -> None:
        back = [place for place in places if self._unavailable.pop(place, None) is not None]
        if back:
            named = first_few([str(place.partition) for place in back])
            _log.info("partitions available again", topic=self.topic, partitions=named)

    def append(self, records: Sequence[Record], codec: Codec = Codec.LZ4) -> None:
        """Write records, and wait until all replicas have them.

        See `partitioned_batches` for the partition of a record. A partition that cannot be written does not
        prevent writes to others. After an error, a part of the records may have been written. Raises
        TopicMissing, Unreachable, TimedOut, NotAuthorized, Refused.
        """
        waiting: list[tuple[TopicPartition, bytearray]] = []

        async def write(cluster: Cluster) -> None:
            if not waiting:
                places = await self.partitions(cluster)
                available = [place for place in places if cluster.leader(place) is not None]
                batches = partitioned_batches(records, places, available)
                waiting.extend((place, write_batch(batch, codec)) for place, batch in batches)
            await _write_each(cluster, waiting)

        if records:
            self.ask("cannot write to", write)

    async def partitions(self, cluster: Cluster) -> list[TopicPartition]:
        """Return the partitions of the topic. Raises TopicMissing, Unreachable, NotAuthorized."""
        places = await topic_partitions(cluster, self.topic)
        for missing in self._unavailable.keys() - set(places):  # the topic was created again
            del self._unavailable[missing]
        return places

    async def records(
        self, cluster: Cluster, place: TopicPartition, start: int, end: int
    ) -> AsyncIterator[Record]:
        """Yield the committed records of the offsets [start, end). Skips invalid batches."""
        span = PartitionRange(
            cluster,
            place,
            start,
            end,
            committed=True,
            on_damage=lambda error: self.note_invalid(place, span.position - 1, error),
        )
        async for batch, header in span.batches():
            try:
                records = read_message(batch) if header is None else read_batch(batch, header)
            except CorruptData as error:
                self.note_invalid(place, span.position - 1, error)
                continue
            for record in records:
                if start <= record.offset < end:
                    yield record

    def note_invalid(self, place: TopicPartition, offset: int, error: Exception) -> None:
        """Log the first invalid record that this client meets."""
        if not self._has_left_out:
            self._has_left_out = True
            _log.warning(
                "invalid records skipped",
                topic=place.topic,
                partition=place.partition,
                offset=offset,
                reason=str(error) or type(error).__name__,
            )


async def _write_each(cluster: Cluster, waiting: list[tuple[TopicPartition, bytearray]]) -> None:
    """Write the batches. Written batches are removed from the list, so that a retry does not repeat them.

    Raises the error of a partition that cannot be written, after the attempts to write to all others.
    """
    failed: dict[TopicPartition, HeadraceError] = {}
    for place, batch in reversed(waiting.copy()):
        if place in failed:
            continue
        try:
            await write_patiently(cluster, place, batch, seconds=0 if failed else None)
        except HeadraceError as error:
            if not error.retriable:
                raise
            failed[place] = error
        else:
            waiting.remove((place, batch))
    for failure in failed.values():
        raise failure


async def create_missing(cluster: Cluster, wanted: TopicDescription) -> None:
    """Create a topic unless it exists. Raises Unreachable if it is not ready yet; NotAuthorized, Refused."""
    topic = wanted.name
    await cluster.refresh([topic])
    found = cluster.topics.get(topic)
    if found is None or found.error in MISSING:
        await create_adjusted(cluster, wanted, -1)
        raise Unreachable(f"topic {topic} of {cluster.name} is being created")
    if found.error:
        right = f"Describe on topic {topic}"
        raise cluster.error(found.error, f"cannot read metadata of topic {topic} of {cluster.name}", right)
