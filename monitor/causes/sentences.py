"""Describes the cause of late records in a sentence with measured values. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mirror.model.datastreams.lanes import QuotaHold, QuotaOwner, WindowLimit
from mirror.wording import clock_text, counted, duration_text, rate_text, size_text
from monitor.causes.diagnosis import Cause
from monitor.causes.evidence import BacklogOrigin, LaneEvidence, Phases
from monitor.movement.states import MovementState

_SPENT: Final = {"wait": "waiting at the source"}
"""Display names of phases, if they differ from the field names."""

_MOST_TOPICS: Final = 5
"""Maximum number of topics in a sentence."""


@dataclass(frozen=True, slots=True)
class CauseFigures:
    """Measured values for the sentence about a cause.

    `lanes`: lanes with this cause. `late`: number of late lanes. `task_lanes`: all lanes of the affected
    task. `hot`: the lane with most of the task's load. `silent`: instances that did not respond. `can_move`:
    load can move to another task. `holds`: quotas that throttle the lanes, including shared quotas.
    """

    lanes: tuple[LaneEvidence, ...]
    late: int
    task_lanes: tuple[LaneEvidence, ...] = ()
    hot: LaneEvidence | None = None
    silent: tuple[str, ...] = ()
    can_move: bool = True
    holds: tuple[QuotaHold, ...] = ()

    @property
    def phases(self) -> Phases | None:
        """Mean time in each phase over all batches of the lanes."""
        known = [(lane.phases, lane.batches_per_second) for lane in self.lanes if lane.phases is not None]
        weight = sum(count for _, count in known)
        if not weight:
            return None
        return Phases(*(sum(phases[place] * count for phases, count in known) / weight for place in range(4)))

    @property
    def hold(self) -> QuotaHold | None:
        """Quota that throttles any of the lanes for the largest share of time."""
        own = [lane.hold for lane in self.lanes if lane.hold is not None]
        return max((*own, *self.holds), key=_share, default=None)

    @property
    def worker_cpu(self) -> float | None:
        """Cores used by the busiest worker process."""
        return max((lane.worker_cpu for lane in self.lanes if lane.worker_cpu is not None), default=None)

    @property
    def worker_waited(self) -> float | None:
        """Largest fraction of time for which a worker process waited for a core."""
        return max(
            (lane.worker_waited for lane in self.lanes if lane.worker_waited is not None), default=None
        )

    @property
    def unanswered(self) -> dict[str, float]:
        """Longest time in seconds for which a request of each kind has been without a response."""
        waits = {
            "fetch": max((lane.fetch_unanswered or 0.0 for lane in self.lanes), default=0.0),
            "produce": max((lane.produce_unanswered or 0.0 for lane in self.lanes), default=0.0),
        }
        return {name: seconds for name, seconds in waits.items() if seconds}

    @property
    def window(self) -> tuple[str, WindowLimit] | None:
        """The cluster (source or destination) whose broker has the TCP window that limits most lanes, and
        that window.

        On a tie, the longer round trip is reported.
        """
        sides = [("source", lane.source_window) for lane in self.lanes]
        sides += [("destination", lane.destination_window) for lane in self.lanes]
        known = Counter((side, window.broker) for side, window in sides if window is not None)
        found = [(side, window) for side, window in sides if window is not None]
        return max(found, key=lambda pair: (known[pair[0], pair[1].broker], pair[1][2], pair), default=None)

    @property
    def timestamp_offset(self) -> float:
        """Largest clock error of any lane's timestamps in seconds; negative if they are behind, 0 if there is
        none."""
        return max((lane.timestamp_offset or 0.0 for lane in self.lanes), key=abs, default=0.0)

    @property
    def task_rate(self) -> float | None:
        """Sum of the known rates of the task's lanes in bytes per second; None if all rates are unknown."""
        known = [lane.bytes_per_second for lane in self.task_lanes if lane.bytes_per_second is not None]
        return sum(known) if known else None

    def numbers(self) -> dict[str, float | str]:
        """Map the name of each known measured value to the value."""
        found: dict[str, float | str] = {
            "late_partitions": self.late,
            "explained_partitions": len(self.lanes),
        }
        if self.phases is not None:
            found |= {f"{name}_ms": round(value, 1) for name, value in self.phases._asdict().items()}
        if self.hold is not None:
            found |= {"quota": self.hold.owner.value, "throttled_share": round(self.hold.share, 3)}
            if self.hold.broker is not None:
                found["broker"] = self.hold.broker
        if self.worker_cpu is not None:
            found["worker_cores"] = round(self.worker_cpu, 3)
        if self.worker_waited is not None:
            found["worker_waited_share"] = round(self.worker_waited, 3)
        found |= {
            f"{name}_unanswered_seconds": round(seconds, 1) for name, seconds in self.unanswered.items()
        }
        if self.window is not None:
            side, window = self.window
            figures = window._asdict()
            found |= {"limited_at": f"broker {figures.pop('broker')} of the {side}", **figures}
        if self.task_lanes:
            found["task"] = self.task_lanes[0].task or ""
        if self.task_rate is not None:
            found["task_bytes_per_second"] = round(self.task_rate)
        if self.hot is not None:
            found |= {
                "partition": self.hot.partition,
                "partition_bytes_per_second": round(self.hot.bytes_per_second or 0.0),
            }
        return found | self._of_lanes()

    def _of_lanes(self) -> dict[str, float]:
        found: dict[str, float] = {}
        if self.timestamp_offset:
            found["timestamp_offset_seconds"] = self.timestamp_offset
        waiting = [lane.lag_records for lane in self.lanes if lane.lag_records is not None]
        if waiting:
            found["waiting_records"] = sum(waiting)
        return found


def sentence_of(cause: Cause, found: CauseFigures) -> str:
    """Return a sentence such as `destination-bound: produce takes 900 ms of 950 ms on average (3 of 4 late
    partitions)`."""
    detail = "; ".join(filter(None, _details(cause, found)))
    explained = len(found.lanes)
    share = f" ({explained} of {counted(found.late, 'late partition')})" if 0 < explained < found.late else ""
    return f"{cause}: {detail}{share}"


def _details(cause: Cause, found: CauseFigures) -> Sequence[str]:
    match cause:
        case Cause.PAUSED | Cause.OPEN_TRANSACTION:
            return (_named(found.lanes),)
        case Cause.HOT_PARTITION | Cause.OVERLOADED_TASK | Cause.OVERLOADED_INSTANCE:
            return (_carried(cause, found), _held(found.hold) or _busy(found))
        case Cause.OUR_QUOTA | Cause.BROKER_QUOTA:
            return (_held(found.hold), _slowest(found.phases))
        case (
            Cause.SOURCE_BOUND
            | Cause.DESTINATION_BOUND
            | Cause.NETWORK
            | Cause.SOURCE_AWAY
            | Cause.DESTINATION_AWAY
        ):
            away = _unreachable(found.lanes)
            if away:
                return (away,)
            details = (_unanswered(found), _slowest(found.phases), _held(found.hold), _has_time(found))
            return (_filled(found.window), *details) if cause is Cause.NETWORK else details
        case Cause.BACKLOG | Cause.INITIAL_COPY | Cause.AFTER_PAUSE | Cause.WORKER_LOST | Cause.INSTANCE_LOST:
            lost = _lost(found.lanes) or (_silent(found.silent) if cause is Cause.INSTANCE_LOST else "")
            backlog = _backlog(found.lanes) if found.lanes else ""
            return (lost, backlog, _held(found.hold), _filled(found.window))
        case Cause.START_UP | Cause.WRONG_TIMESTAMPS:
            return _unlike(cause, found.lanes)
        case Cause.UNKNOWN:
            if not found.lanes and not found.late and not found.silent:
                return ("no backlog now",)
            return ("measurements do not explain it", _slowest(found.phases), _silent(found.silent))


def _unlike(cause: Cause, lanes: Sequence[LaneEvidence]) -> Sequence[str]:
    """Return the details for a cause that is wrong timestamps or a start-up."""
    if cause is Cause.WRONG_TIMESTAMPS:
        return (_stamped(lanes), "check the clocks of the producers")
    return (f"{counted(len(lanes), 'partition does', 'partitions do')} not copy yet",)


def _named(lanes: Sequence[LaneEvidence]) -> str:
    first = min(lanes, key=lambda lane: lane.partition)
    more = f", and {len(lanes) - 1} more" if len(lanes) > 1 else ""
    return f"{first.partition}: {first.reason or 'it is not copied'}{more}"


def _lost(lanes: Sequence[LaneEvidence]) -> str:
    removed = [lane for lane in lanes if lane.origin is BacklogOrigin.INSTANCE and lane.origin_ms is not None]
    if removed:
        names = ", ".join(sorted({lane.lost or lane.instance for lane in removed}))
        return f"{names} lost its session at {clock_text(min(lane.origin_ms or 0 for lane in removed))}"
    times = [
        lane.origin_ms for lane in lanes if lane.origin is BacklogOrigin.WORKER and lane.origin_ms is not None
    ]
    if times:
        return f"lost at {clock_text(min(times))} and replaced"
    stopped = [lane for lane in lanes if lane.state is MovementState.STOP]
    return _named(stopped) if stopped else ""


def _carried(cause: Cause, found: CauseFigures) -> str:
    task, rate = found.task_lanes[0].task, rate_text(found.task_rate or 0.0)
    if cause is Cause.HOT_PARTITION and found.hot is not None:
        alone = "" if found.can_move else ", which has no other partition"
        part = rate_text(found.hot.bytes_per_second or 0.0)
        return f"{found.hot.partition} carries {part} of the {rate} of task {task}{alone}"
    if cause is Cause.OVERLOADED_TASK:
        copied = "copies" if found.task_rate is None else f"copies {rate} of"
        return f"{task} {copied} {counted(len(found.task_lanes), 'partition')}"
    tasks = len({lane.task for lane in found.lanes})
    return f"{found.lanes[0].instance}, with {counted(tasks, 'late task')}"


def _busy(found: CauseFigures) -> str:
    cores, waited = found.worker_cpu, found.worker_waited
    if cores is None:
        return ""
    more = f" and waits for a core {min(waited, 1.0):.0%} of the time" if waited else ""
    return f"the worker process is {min(cores, 1.0):.0%} busy{more}"


def _has_time(found: CauseFigures) -> str:
    """Describe how busy the worker process is, as evidence that Headrace is not the bottleneck."""
    cores = found.worker_cpu
    return f"the worker process is {min(cores, 1.0):.0%} busy" if cores is not None else ""


def _held(hold: QuotaHold | None) -> str:
    if hold is None:
        return ""
    share = f"for {hold.share:.0%} of the time"
    match hold.owner:
        case QuotaOwner.TASK | QuotaOwner.DATASTREAM:
            return f"the quota of the {hold.owner} throttles it {share}"
        case QuotaOwner.SOURCE:
            return f"{_broker(hold)} of the source throttles {share}"
        case QuotaOwner.DESTINATION:
            return f"{_broker(hold)} of the destination throttles {share}"
        case QuotaOwner.OTHERS:
            return f"yields {share} to partitions that would lose records sooner"


_CURES: Final = {
    "source": ("sends", "socket.send.buffer.bytes", "read_connections"),
    "destination": ("takes", "socket.receive.buffer.bytes", "write_connections and read_ahead_bytes"),
}


def _filled(limit: tuple[str, WindowLimit] | None) -> str:
    """Describe a distant broker whose TCP window limits the rate, and the remedies."""
    if limit is None:
        return ""
    side, window = limit
    verb, buffers, setting = _CURES[side]
    return (
        f"broker {window.broker} of the {side} {verb} at most {size_text(window.window_bytes)} per round trip"
        f" of {_length(window.round_trip_ms)} on each connection, and {window.connections} of"
        f" {window.allowed_connections} additional connections are in use; set {buffers} of the broker to -1,"
        f" or raise mirror.copying.{setting}"
    )


def _broker(hold: QuotaHold) -> str:
    return "a broker" if hold.broker is None else f"broker {hold.broker}"


def _slowest(phases: Phases | None) -> str:
    if phases is None or phases.total <= 0:
        return ""
    total = f"{_length(phases.total)} on average"
    named = [(_SPENT.get(name, name), length) for name, length in phases._asdict().items()]
    by_length = sorted(named, key=lambda pair: -pair[1])
    (first, longest), (second, next_longest), *_ = by_length
    if longest > phases.total / 2:
        return f"{first} takes {_length(longest)} of {total}"
    return f"{first} and {second} take {_length(longest)} and {_length(next_longest)} of {total}"


def _length(milliseconds: float) -> str:
    return duration_text(milliseconds / 1_000)


def _unanswered(found: CauseFigures) -> str:
    waits = [f"{name} has waited {duration_text(seconds)}" for name, seconds in found.unanswered.items()]
    return f"{' and '.join(waits)} for a response" if waits else ""


def _unreachable(lanes: Sequence[LaneEvidence]) -> str:
    silent = [lane for lane in lanes if lane.state is not None and lane.state.value.endswith("_AWAY")]
    return _named(silent) if silent else ""


def _backlog(lanes: Sequence[LaneEvidence]) -> str:
    known = [lane.lag_records for lane in lanes if lane.lag_records is not None]
    waiting = counted(sum(known), "record") if known else "records"
    eta = max((lane.eta_seconds for lane in lanes if lane.eta_seconds is not None), default=None)
    until = f", about {duration_text(eta)} to catch up" if eta is not None else ""
    fewer = ", and shrinking" if any(lane.state is MovementState.CATCHING_UP for lane in lanes) else ""
    return f"backlog of {waiting} in {counted(len(lanes), 'partition')}{fewer}{until}"


def _stamped(lanes: Sequence[LaneEvidence]) -> str:
    """List the topics with wrong timestamps, in descending order of the error."""
    offsets: dict[str, float] = {}
    for lane in lanes:
        if abs(lane.timestamp_offset or 0.0) > abs(offsets.get(lane.topic, 0.0)):
            offsets[lane.topic] = lane.timestamp_offset or 0.0
    ranked = sorted(offsets.items(), key=lambda item: (-abs(item[1]), item[0]))
    named = [
        f"{topic} {duration_text(abs(seconds))} {'ahead' if seconds > 0 else 'behind'}"
        for topic, seconds in ranked[:_MOST_TOPICS]
    ]
    more = f" and {counted(len(ranked) - _MOST_TOPICS, 'more topic')}" if len(ranked) > _MOST_TOPICS else ""
    return f"timestamps of {', '.join(named)}{more}"


def _silent(instances: Sequence[str]) -> str:
    return f"no response from {', '.join(instances)}" if instances else ""


def _share(hold: QuotaHold) -> float:
    return hold.share
