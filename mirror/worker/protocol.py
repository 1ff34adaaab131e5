"""Messages between the control process and its worker processes over a socket pair. Pure.

A message consists of a four-byte big-endian length, and a JSON list with the class name and the fields in
order (see `codec`). The control process and its workers run the same version. An end of file means that the
other process has ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, get_args

from mirror.errors import CorruptData, HeadraceError
from mirror.model.datastreams.lanes import LaneEvent, LaneKey, LaneSpec, LaneWindows, Unanswered
from mirror.model.identifiers import ClusterRef, Epoch, GroupName, TaskName
from mirror.model.latency import add_counts
from mirror.model.metrics import SHOWN_OF_LANES, SUMMED, Drops, MirrorMetric
from mirror.model.movement.clock_skew import ClockSkew
from mirror.model.movement.history import LanePosition
from mirror.model.topics import TopicPartition
from mirror.worker.codec import dumps, joined, reader_of, spec_parts, tag, to_plain

EXIT_LEASE_OVER: Final = 75
"""Exit code of a worker whose lease expired. Such an exit is not a failure of the worker."""


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """First message to a worker of `headrace copy`: parameters of its engine, including secrets."""

    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExpectLanes:
    """Message to a worker: prepare lanes that it will get after their current owner has released them."""

    specs: tuple[LaneSpec, ...]


@dataclass(frozen=True, slots=True)
class StartLanes:
    """Message to a worker: start lanes that the plan of the given epoch assigns."""

    epoch: Epoch
    specs: tuple[LaneSpec, ...]


@dataclass(frozen=True, slots=True)
class StopLanes:
    """Message to a worker: drain, checkpoint and release lanes."""

    keys: tuple[LaneKey, ...]


class QuotaShare(NamedTuple):
    """Rate limit for the lanes of one datastream group in one worker."""

    group: GroupName
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class ShareQuotas:
    """Message to a worker: its share of the quota of each datastream group."""

    shares: tuple[QuotaShare, ...]


@dataclass(frozen=True, slots=True)
class ExtendLease:
    """Message to a worker: it may write until this time (monotonic seconds).

    A worker whose lease is not extended stops, even if the control process is frozen.
    """

    until: float


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Message to a worker: release all lanes within the deadline, then exit."""

    deadline_seconds: float


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """First message from a worker: it accepts commands.

    `data_plane`: compiled or interpreted.
    """

    data_plane: str


@dataclass(frozen=True, slots=True)
class WorkerAlive:
    """Heartbeat from a worker's loop, sent every second."""


@dataclass(frozen=True, slots=True)
class LaneNews:
    """Message from a worker: events of its lanes."""

    events: tuple[LaneEvent, ...]


class CoreUse(NamedTuple):
    """CPU use of a worker process.

    Number of cores in use, and share of the time for which the copy thread was runnable but waited for a
    core. None if unknown.
    """

    busy: float | None = None
    waited: float | None = None


NO_CORE_USE: Final = CoreUse()


@dataclass(frozen=True, slots=True)
class LaneRate:
    """Recent rates of one lane per second, with its lag in records and in ms (None if unknown).

    `shown`: rates of the fields in `SHOWN_OF_LANES`, in that order. `position`: None if the worker omits it
    (see `LanePosition.is_watched`). `core`: CPU use of the worker process. `checkpoint`: source offset to
    resume from; None from workers of an older version. `offset_ms`: clock error of the lane's producers,
    positive if ahead; 0 if correct or unknown.
    """

    key: LaneKey
    source: ClusterRef
    bytes_per_second: float
    messages_per_second: float
    lag_records: int
    lag_ms: int | None
    shown: tuple[float, ...] = ()
    position: LanePosition | None = None
    core: CoreUse = NO_CORE_USE
    checkpoint: int | None = None
    offset_ms: int = 0

    @classmethod
    def of(
        cls,
        metric: MirrorMetric,
        position: LanePosition | None = None,
        core: CoreUse = NO_CORE_USE,
        checkpoint: int | None = None,
        offset_ms: int = 0,
    ) -> LaneRate:
        """Compute the rates of a lane from one measurement.

        `position`: position of the lane at the end of the measurement.
        """
        seconds = max(metric.interval_ms, 1) / 1000
        return cls(
            key=LaneKey(GroupName(metric.datastream), TopicPartition(metric.topic, metric.kafka_partition)),
            source=ClusterRef(metric.source_cluster),
            bytes_per_second=metric.bytes_copied / seconds,
            messages_per_second=metric.records_copied / seconds,
            lag_records=metric.lag_records,
            lag_ms=metric.lag_ms,
            shown=tuple(getattr(metric, name) / seconds for name in SHOWN_OF_LANES),
            position=position,
            core=core,
            checkpoint=checkpoint,
            offset_ms=offset_ms,
        )


@dataclass(frozen=True, slots=True)
class TaskSums:
    """Sums of the counters of a task's lanes, for one interval or since the instance started.

    `sums`: values of the `SUMMED` fields of `MirrorMetric`, in that order.
    """

    group: GroupName
    task: TaskName
    sums: tuple[float, ...]
    latency_counts: tuple[int, ...]

    @classmethod
    def of(cls, metric: MirrorMetric) -> TaskSums:
        """Return the contribution of one lane to the sums of its task."""
        return cls(
            group=GroupName(metric.datastream),
            task=TaskName(metric.task),
            sums=tuple(getattr(metric, name) for name in SUMMED),
            latency_counts=metric.latency_counts,
        )

    def by_name(self) -> dict[str, float]:
        """Map field names to sums."""
        return dict(zip(SUMMED, self.sums, strict=True))

    def plus(self, other: TaskSums) -> TaskSums:
        """Add two sums. The result has the task of `self`."""
        sums = tuple(own + added for own, added in zip(self.sums, other.sums, strict=True))
        counts = add_counts((self.latency_counts, other.latency_counts))
        return replace(self, sums=sums, latency_counts=counts)


class ThrottledTime(NamedTuple):
    """Seconds for which the brokers of a cluster have throttled one worker."""

    cluster: ClusterRef
    seconds: float


class ClusterClock(NamedTuple):
    """Clock skew of a broker relative to this machine, measured by one worker."""

    cluster: ClusterRef
    skew: ClockSkew


class WaitingLane(NamedTuple):
    """A lane that waits for an overdue response of a broker."""

    key: LaneKey
    unanswered: Unanswered


class LimitedLane(NamedTuple):
    """A lane whose rate is limited by the TCP window of a distant broker."""

    key: LaneKey
    windows: LaneWindows


@dataclass(frozen=True, slots=True)
class LaneRates:
    """Message from a worker: rates of its lanes in the last metrics interval.

    Contains the rates of changed lanes, the sums of their tasks, clusters that throttle the worker, and known
    clock skews. `at`: time of the measurement (monotonic seconds), None for now. `waiting`: lanes that wait
    for an overdue response. `limited`: lanes whose rate is limited by the TCP window of a distant broker.
    """

    rates: tuple[LaneRate, ...]
    sums: tuple[TaskSums, ...] = ()
    throttled: tuple[ThrottledTime, ...] = ()
    clocks: tuple[ClusterClock, ...] = ()
    at: float | None = None
    waiting: tuple[WaitingLane, ...] = ()
    limited: tuple[LimitedLane, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordsDropped:
    """Message from a worker after a change of the number of metric records dropped since its start.

    Contains the reason while records are being dropped.
    """

    drops: Drops


@dataclass(frozen=True, slots=True)
class CopySums:
    """Message from a worker of `headrace copy`: totals of its lanes since its start, and their lag.

    `fenced`: number of lanes that another owner has taken over permanently. `throttled`: throttled time by
    cluster since the start. `unknown`: number of lanes with an unknown lag.
    """

    records: int
    bytes: int
    lag: int
    fenced: int
    throttled: tuple[ThrottledTime, ...] = ()
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class LaneReports:
    """Message from a worker of `headrace copy`: final reports of stopped lanes.

    Before the worker exits, it also reports its remaining lanes. `reports`: fields of `LaneReport` by name,
    for each lane.
    """

    reports: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class WorkerDone:
    """Last message from a worker of `headrace copy`, after all reports: resource usage of the process."""

    cpu_seconds: float
    peak_rss_bytes: int


Message = (
    WorkerSetup
    | ExpectLanes
    | StartLanes
    | StopLanes
    | ShareQuotas
    | ExtendLease
    | Shutdown
    | WorkerReady
    | WorkerAlive
    | LaneNews
    | LaneRates
    | RecordsDropped
    | CopySums
    | LaneReports
    | WorkerDone
)

_LONGEST_MESSAGE: Final = 2**30
_ENVELOPE_BYTES: Final = 64
PART_BYTES: Final = 64 * 1024
"""Maximum size of a message about lanes.

Longer lists are split into several messages, so that a lease can be sent between them.
"""

tag(*get_args(Message), *get_args(LaneEvent))


def encode_message(message: Message) -> bytes:
    """Encode a message to or from a worker with its length prefix."""
    return _framed(dumps(to_plain(message)))


def encode_parts(message: Message) -> list[bytes]:
    """Encode a message to or from a worker, in several parts if it contains many lanes.

    Raises InvalidRequest for a lane that is too large.
    """
    most = PART_BYTES - _ENVELOPE_BYTES
    match message:
        case ExpectLanes(specs):
            return [_framed(f'["ExpectLanes",{part}]') for part in spec_parts(specs, most)]
        case StartLanes(epoch, specs):
            return [_framed(f'["StartLanes",{epoch},{part}]') for part in spec_parts(specs, most)]
        case StopLanes(keys):
            return [
                _framed(f'["StopLanes",[{part}]]') for part in joined(map(dumps, map(to_plain, keys)), most)
            ]
        case _:
            return [encode_message(message)]


def _framed(text: str) -> bytes:
    body = text.encode()
    return len(body).to_bytes(4, "big") + body


def _refuse(error: CorruptData) -> None:
    raise error


class MessageReader:
    """Incremental decoder of messages. `skipped`: callback that receives the error of an invalid message,
    before the next message is read. The default handler raises the error."""

    def __init__(self, skipped: Callable[[CorruptData], None] = _refuse) -> None:
        self._buffer = bytearray()
        self._skipped = skipped

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that are complete. Raises CorruptData for an implausible length."""
        self._buffer += data
        while len(self._buffer) >= 4:
            length = int.from_bytes(self._buffer[:4], "big")
            if length > _LONGEST_MESSAGE:
                raise CorruptData(f"message of {length} bytes between worker and control process is too long")
            if len(self._buffer) < 4 + length:
                return
            body = bytes(self._buffer[4 : 4 + length])
            del self._buffer[: 4 + length]
            try:
                message = _message(body)
            except CorruptData as error:
                self._skipped(error)
            else:
                yield message


def _message(body: bytes) -> Message:
    try:
        message: Message = reader_of(Message)(json.loads(body))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, HeadraceError) as error:
        raise CorruptData(f"malformed message between worker and control process: {body[:80]!r}") from error
    return message
