"""Reads an offset range of a partition independently of the lanes.

Records are copied out of the receive buffer, so that no buffer is retained while the caller processes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Final, NamedTuple

from mirror.client.cluster import ASIDE, Cluster
from mirror.client.connection import Connection
from mirror.client.event_loop import Promise
from mirror.client.request import Request
from mirror.errors import CorruptData, HeadraceError, TopicMissing, Unreachable
from mirror.lane.memory import ReceiveBuffer
from mirror.lane.rules import AbortedFilter
from mirror.model.topics import TopicPartition
from mirror.protocol import fetch
from mirror.protocol.batches.batch import BatchHeader, scan, verify
from mirror.protocol.batches.legacy import last_offset
from mirror.protocol.codes import TRANSIENT, Code
from mirror.protocol.control.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, Answers, OffsetAnswer
from mirror.protocol.fetch import FetchedPartition, FetchPosition, FetchRequest

_WAIT_MS: Final = 100
_STEP_BYTES: Final = 1024 * 1024
_MOST_EMPTY_ANSWERS: Final = 20
_EMPTY_SECONDS: Final = 0.25
"""Seconds to wait after an empty response, while the broker may fetch a remote segment (KIP-405)."""
_OFFSETS_SECONDS: Final = 2.0
"""Time limit in seconds for retries of an offset lookup that some partitions have answered."""


class FetchWait(NamedTuple):
    """Options of a Fetch request: the broker's longest wait for records, and the connection's role."""

    milliseconds: int = _WAIT_MS
    role: str = ASIDE


_SHORT_WAIT: Final = FetchWait()


async def topic_partitions(cluster: Cluster, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic. Raises TopicMissing, Unreachable, NotAuthorized."""
    await cluster.refresh([topic])
    found = cluster.topics.get(topic)
    if found is None:
        raise TopicMissing(f"{topic} of {cluster.name} is not a legal topic name")
    if found.error:
        doing = f"cannot read metadata of topic {topic} of {cluster.name}"
        raise cluster.error(found.error, doing, f"Read on topic {topic}")
    return found.partitions


async def partition_offsets(
    cluster: Cluster, places: Collection[TopicPartition], when: int
) -> dict[TopicPartition, int]:
    """Return the offset of each partition at a timestamp (see `list_offsets`). Only committed records count.

    Raises Unreachable, NotAuthorized, Refused.
    """
    answers = await _offsets(cluster, dict.fromkeys(places, when), committed=True)
    for place, answer in answers.items():
        if answer.error:
            raise offset_error(cluster, place, answer.error)
    return {place: answer.offset for place, answer in answers.items()}


def offset_error(cluster: Cluster, place: TopicPartition, code: int) -> HeadraceError:
    """Return the error for the error code of an offset lookup."""
    doing = f"cannot read the offsets of {place} of {cluster.name}"
    if code == Code.LEADER_NOT_AVAILABLE and cluster.leader(place) is None:
        return Unreachable(
            f"{doing}: the partition has no leader",
            advice="start a broker that has a replica of it",
        )
    return cluster.error(code, doing, f"Describe on topic {place.topic}")


async def available_offsets(
    cluster: Cluster,
    places: Collection[TopicPartition],
    when: int,
    offline: Collection[TopicPartition] = (),
    *,
    committed: bool = False,
) -> Answers:
    """Return the offset of each partition at a timestamp (see `list_offsets`), with an error code for each
    unavailable partition.

    `offline`: partitions that were unavailable at the last call; they are tried once. Other unavailable
    partitions delay the call by two seconds. Raises Unreachable if no partition responds, unless all were
    unavailable before.
    """
    wanted = {place: when for place in places if place not in offline}
    seconds = min(_OFFSETS_SECONDS, cluster.timeout_seconds)
    try:
        found = await cluster.offsets(wanted, committed=committed, seconds=seconds)
    except Unreachable:  # an outage of the cluster, not of a partition
        found = await _offsets(cluster, wanted, committed=committed)
    known = {place: when for place in places if place not in wanted}
    try:
        return {**found, **await cluster.offsets(known, committed=committed, seconds=0)}
    except Unreachable:
        return {**found, **dict.fromkeys(known, OffsetAnswer(Code.LEADER_NOT_AVAILABLE, -1, -1))}


async def _offsets(cluster: Cluster, wanted: Mapping[TopicPartition, int], *, committed: bool) -> Answers:
    """Look up offsets. If no partition responds, raises an error that names a partition without a leader."""
    try:
        return await cluster.offsets(wanted, committed=committed)
    except Unreachable as error:
        for place in wanted:
            topic = cluster.topics.get(place.topic)
            if topic is not None and not topic.error and cluster.leader(place) is None:
                raise offset_error(cluster, place, Code.LEADER_NOT_AVAILABLE) from error
        raise


async def log_range(cluster: Cluster, place: TopicPartition) -> tuple[int, int]:
    """Return the first offset and the end offset of a partition. Raises as `partition_offsets`."""
    starts = await partition_offsets(cluster, [place], EARLIEST)
    return starts[place], (await partition_offsets(cluster, [place], LATEST))[place]


async def fetch_once(
    cluster: Cluster, place: TopicPartition, offset: int, *, committed: bool, most_bytes: int = _STEP_BYTES
) -> FetchedPartition:
    """Send one Fetch request to a partition's leader.

    Repeats the request while a quota or remote storage (for some seconds) causes empty responses. A response
    without records means that the rest of the log was compacted away, or that the broker has not fetched the
    segment in time. Raises Unreachable without a leader, otherwise the error for the broker's error code.
    """
    position = FetchPosition(-1, offset, -1, most_bytes)
    for number in range(_MOST_EMPTY_ANSWERS):
        part = await fetch_part(cluster, place, position, committed=committed)
        if part.error:
            break
        if len(part.records) or offset >= (part.last_stable_offset if committed else part.high_watermark):
            return part
        if number == 1 and await _is_on_disk(cluster, place, offset):
            return part
        await cluster.loop.sleep(_EMPTY_SECONDS)
    if part.error:
        doing = f"cannot read {place} of {cluster.name} at offset {offset}"
        error = cluster.error(part.error, doing, f"Read on topic {place.topic}")
        raise Unreachable(error.message) if part.error in TRANSIENT else error
    return part


async def _is_on_disk(cluster: Cluster, place: TopicPartition, offset: int) -> bool:
    """Return whether the leader stores the log from this offset on local disks, not in tiered storage.

    A broker returns the next local batch whatever its offset, so an empty response means that there is none.
    The caller waits for a second empty response, because a new leader may not know the high watermark yet.
    Segments never return to local disks, so an offset that is local now was also local when the broker
    responded.
    """
    found = (await cluster.offsets({place: EARLIEST_LOCAL}))[place]
    return not found.error and 0 <= found.offset <= offset


async def fetch_part(
    cluster: Cluster,
    place: TopicPartition,
    position: FetchPosition,
    *,
    committed: bool,
    wait: FetchWait = _SHORT_WAIT,
) -> FetchedPartition:
    """Send a Fetch request as `fetch_once` does, but return the broker's error code instead of raising.
    Raises Unreachable without a leader."""
    leader = cluster.leader(place)
    if leader is None:
        await cluster.refresh([place.topic])
        leader = cluster.leader(place)
    if leader is None:
        raise Unreachable(f"{place} of {cluster.name} has no leader")
    part = None
    while part is None:
        connection = await cluster.connection(leader[0], wait.role)
        await cluster.loop.sleep(max(0.0, connection.throttled_until - cluster.loop.now()))
        part = await _ask(cluster, connection, place, position, committed, wait.milliseconds)
    return part


def _ask(
    cluster: Cluster,
    connection: Connection,
    place: TopicPartition,
    position: FetchPosition,
    committed: bool,
    wait_ms: int,
) -> Promise[FetchedPartition | None]:
    """Send one Fetch request. Return None to retry if a quota caused an empty response (KIP-219)."""
    topic_id = cluster.topic_id(place.topic)
    version = connection.version_of(fetch.API, fetch.VERSIONS if topic_id else fetch.NAMED_VERSIONS)
    topic = topic_id if version >= fetch.BY_ID_FROM else place.topic.encode()
    positions = {topic: [(place.partition, position)]}
    body = fetch.encode_request(version, FetchRequest(wait_ms, 1, position.max_bytes, committed, positions))
    promise = Promise[FetchedPartition | None]()

    def on_answer(frame: memoryview, _slab: ReceiveBuffer) -> None:
        response = fetch.decode_response(version, frame)
        connection.throttle(response.throttle_ms)
        if response.throttle_ms and not response.partitions:
            promise.resolve(None)
            return
        if len(response.partitions) != 1:
            raise CorruptData(f"{cluster.name} returned other partitions than {place}")
        (part,) = response.partitions
        promise.resolve(part._replace(records=memoryview(bytes(part.records))))

    connection.send(
        Request(
            fetch.API,
            version,
            fetch.is_flexible(version),
            [body],
            len(body),
            cluster.timeout_seconds + wait_ms / 1000,
            on_answer,
            promise.fail,
            most_bytes=fetch.response_bytes(position.max_bytes, cluster.largest_batch_bytes, 1),
        )
    )
    return promise


class PartitionRange:
    """Reads the offset range [start, end) of a partition in order. Skips gaps.

    `batches` verifies and yields every batch. `next_part` returns whole responses with their aborted
    transactions; its callers must advance `position`. `committed`: read only committed records. `on_damage`:
    called with the error of a corrupt batch, which is then skipped; None to raise the error.
    """

    def __init__(
        self,
        cluster: Cluster,
        place: TopicPartition,
        start: int,
        end: int,
        *,
        committed: bool = False,
        on_damage: Callable[[CorruptData], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._place = place
        self._end = end
        self._committed = committed
        self._on_damage = on_damage
        self._bytes = _STEP_BYTES
        self._requested = -1
        self.position = start
        """Next offset to read."""

    async def next_part(self) -> FetchedPartition | None:
        """Return the records at `position`, or None at the end. Retries transient errors; otherwise raises as
        `fetch_once`."""
        while self.position < self._end:
            if self.position == self._requested:
                self._bytes *= 2  # the batch is larger than the limit of the last fetch
            self._requested = self.position
            part = await self._cluster.patiently(self._fetch, topic=self._place.topic)
            if len(part.records):
                return part
            self.position = self._end  # compacted to the end, or an open transaction
        return None

    async def batches(self) -> AsyncIterator[tuple[memoryview, BatchHeader | None]]:
        """Yield every record batch in the range. Raises the errors of `next_part`."""
        while (part := await self.next_part()) is not None:
            aborted = AbortedFilter(part.aborted) if self._committed else None
            for start, end, header in scan(part.records):
                batch = part.records[start:end]
                first, last = self._range_of(batch, header)
                if last < self.position:
                    continue
                if first >= self._end:
                    self.position = self._end
                    break
                self.position = last + 1
                is_left_out = (
                    aborted is not None and header is not None and aborted.offset_class(batch, header)
                )
                if not is_left_out and self._is_sound(batch, header):
                    yield batch, header

    def _is_sound(self, batch: memoryview, header: BatchHeader | None) -> bool:
        try:
            if header is not None:
                verify(batch, header)
        except CorruptData as error:
            if self._on_damage is None:
                raise
            self._on_damage(error)
            return False
        return True

    async def _fetch(self) -> FetchedPartition:
        return await fetch_once(
            self._cluster, self._place, self.position, committed=self._committed, most_bytes=self._bytes
        )

    def _range_of(self, batch: memoryview, header: BatchHeader | None) -> tuple[int, int]:
        if header is not None:
            return header.base_offset, header.last_offset
        last = last_offset(batch)
        return min(self.position, last), last  # a compressed message contains earlier records, too
