"""What the control process and its worker processes say to each other over a socket pair. Pure.

A message is four bytes of length (big-endian) and a JSON list: its kind, then its fields in order (`codec`).
Both ends are of the same version. The worker's end of file means that the control process is gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, get_args

from mirror.errors import CorruptData, HeadraceError
from mirror.model.datastreams.lanes import LaneEvent, LaneKey, LaneSpec, Unanswered
from mirror.model.identifiers import ClusterRef, Epoch, GroupName, TaskName
from mirror.model.metrics import SHOWN_OF_LANES, SUMMED, Drops, MirrorMetric, add_counts
from mirror.model.movement.clock_skew import ClockSkew
from mirror.model.movement.history import LanePosition
from mirror.model.topics import TopicPartition
from mirror.worker.codec import dumps, joined, reader_of, spec_parts, tag, to_plain

EXIT_LEASE_OVER: Final = 75
"""The exit code of a worker whose lease was over: what it copied has nothing to do with its end."""


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """To a worker of a copy, first of all: what its engine is made with, as plain values with secrets."""

    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExpectLanes:
    """To a worker: these will be yours when their present owner has released them; get ready."""

    specs: tuple[LaneSpec, ...]


@dataclass(frozen=True, slots=True)
class StartLanes:
    """To a worker: copy these, which the plan of this epoch gives to it."""

    epoch: Epoch
    specs: tuple[LaneSpec, ...]


@dataclass(frozen=True, slots=True)
class StopLanes:
    """To a worker: drain, checkpoint and release these."""

    keys: tuple[LaneKey, ...]


class QuotaShare(NamedTuple):
    """What the lanes of one datastream group may copy in one worker, in bytes a second."""

    group: GroupName
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class ShareQuotas:
    """To a worker: your part of the quotas of the groups whose lanes you have."""

    shares: tuple[QuotaShare, ...]


@dataclass(frozen=True, slots=True)
class ExtendLease:
    """To a worker: you may write until this moment of the machine's monotonic clock (seconds).

    A worker that hears nothing more stops by itself, also when the control process is frozen.
    """

    until: float


@dataclass(frozen=True, slots=True)
class Shutdown:
    """To a worker: release everything within the deadline and exit."""

    deadline_seconds: float


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """From a worker, first of all: it takes commands. `data_plane`: compiled or interpreted."""

    data_plane: str


@dataclass(frozen=True, slots=True)
class WorkerAlive:
    """From a worker, every second: its loop turns."""


@dataclass(frozen=True, slots=True)
class LaneNews:
    """From a worker: what happened to lanes."""

    events: tuple[LaneEvent, ...]


class CoreUse(NamedTuple):
    """Of a worker process, in cores: what it was busy with, and for which part of the time its copying thread
    could have run and had to wait for one. None where that is not known."""

    busy: float | None = None
    waited: float | None = None


NO_CORE_USE: Final = CoreUse()


@dataclass(frozen=True, slots=True)
class LaneRate:
    """What one lane did lately: rates per second, lag in records and in ms (None where it is not known).
    `shown`: the rates of `SHOWN_OF_LANES`, in that order. `position`: None where it is not said: the lane is
    as `LanePosition.is_watched` has it. `core`: what its whole worker process had. `checkpoint`: below which
    all is at the destination; None where a worker of a former version does not say it."""

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

    @classmethod
    def of(
        cls,
        metric: MirrorMetric,
        position: LanePosition | None = None,
        core: CoreUse = NO_CORE_USE,
        checkpoint: int | None = None,
    ) -> LaneRate:
        """What a lane did in the interval of a measurement, and where it stood at its end."""
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
        )


@dataclass(frozen=True, slots=True)
class TaskSums:
    """What a task did in one interval, or since the instance began. `sums`: of the `SUMMED` fields of
    `MirrorMetric`, in that order."""

    group: GroupName
    task: TaskName
    sums: tuple[float, ...]
    latency_counts: tuple[int, ...]

    @classmethod
    def of(cls, metric: MirrorMetric) -> TaskSums:
        """What one lane adds to its task."""
        return cls(
            group=GroupName(metric.datastream),
            task=TaskName(metric.task),
            sums=tuple(getattr(metric, name) for name in SUMMED),
            latency_counts=metric.latency_counts,
        )

    def by_name(self) -> dict[str, float]:
        """The sums by the names of their fields."""
        return dict(zip(SUMMED, self.sums, strict=True))

    def plus(self, other: TaskSums) -> TaskSums:
        """Both together; of this one's task."""
        sums = tuple(one + another for one, another in zip(self.sums, other.sums, strict=True))
        counts = add_counts((self.latency_counts, other.latency_counts))
        return replace(self, sums=sums, latency_counts=counts)


class ThrottledTime(NamedTuple):
    """The seconds in which a broker of the cluster has throttled one worker."""

    cluster: ClusterRef
    seconds: float


class ClusterClock(NamedTuple):
    """How far the clock of a broker of the cluster is off from ours, as one worker has measured it."""

    cluster: ClusterRef
    skew: ClockSkew


class WaitingLane(NamedTuple):
    """A lane of which an answer is overdue."""

    key: LaneKey
    unanswered: Unanswered


@dataclass(frozen=True, slots=True)
class LaneRates:
    """From a worker, every metrics interval: the lanes with something to say, their tasks, the clusters
    that have throttled it, and those of which it knows what time it is there. `at`: when that was so, by the
    machine's monotonic clock (seconds); None: now. `waiting`: of the lanes those that wait for an answer."""

    rates: tuple[LaneRate, ...]
    sums: tuple[TaskSums, ...] = ()
    throttled: tuple[ThrottledTime, ...] = ()
    clocks: tuple[ClusterClock, ...] = ()
    at: float | None = None
    waiting: tuple[WaitingLane, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordsDropped:
    """From a worker, when it has changed: how many records about its lanes were not delivered since it
    began, and why while more are dropped."""

    drops: Drops


@dataclass(frozen=True, slots=True)
class CopySums:
    """From a worker of a copy: what its lanes have done since it started, and their lag in records. `fenced`:
    lanes that another owner has taken for good; `throttled`: since it started, by cluster."""

    records: int
    bytes: int
    lag: int
    fenced: int
    throttled: tuple[ThrottledTime, ...] = ()


@dataclass(frozen=True, slots=True)
class LaneReports:
    """From a worker of a copy: lanes that have stopped, and in the end those that have not; the fields of
    `LaneReport` by name."""

    reports: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class WorkerDone:
    """From a worker of a copy, last of all: every report is given; what the process has used."""

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
"""Size of the largest message about lanes. More lanes take several, so that a lease can go between."""

tag(*get_args(Message), *get_args(LaneEvent))


def encode_message(message: Message) -> bytes:
    """One message with its length in front."""
    return _framed(dumps(to_plain(message)))


def encode_parts(message: Message) -> list[bytes]:
    """Encode a message, one about many lanes in parts. Raises InvalidRequest for a lane that is too large."""
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
    """Turns what arrives, in pieces of any size, into messages. `skipped` gets what is no message, before
    the next one is read; it raises it, unless another one is given."""

    def __init__(self, skipped: Callable[[CorruptData], None] = _refuse) -> None:
        self._buffer = bytearray()
        self._skipped = skipped

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete now. Raises CorruptData where a length cannot be right."""
        self._buffer += data
        while len(self._buffer) >= 4:
            length = int.from_bytes(self._buffer[:4], "big")
            if length > _LONGEST_MESSAGE:
                raise CorruptData(f"a message between worker and control process of {length} bytes")
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
        raise CorruptData(f"no message between worker and control process: {body[:80]!r}") from error
    return message
