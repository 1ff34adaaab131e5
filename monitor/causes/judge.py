"""Rules that diagnose late records from the evidence. Pure.

The cause of a late lane is that of the first matching rule. The most frequent cause is the cause of the
datastream. The next most frequent is reported as the second cause. A lane is late if it does not copy, if its
backlog does not shrink, or if one of these exceeds the objective: the age of its oldest waiting record, the
mean latency of its batches, or the age of an unanswered request. If no lane is late and every instance has
responded, all lanes count.

    rule | condition for a late lane                                         | cause
    -----|-------------------------------------------------------------------|---------------------------------
     1   | its worker process does not respond, or was lost in the last ten  | worker process lost
         | minutes and the lane has been behind since                        |
         | not copying: paused by an operator or on an error, or without an  | paused
         | owner                                                             |
     2   | an open transaction at the source hides the backlog               | open transaction
     3   | waits for a cluster that does not respond                         | source unavailable,
         |                                                                   | destination unavailable
     4   | starting                                                          | start-up
     5   | behind since it started, or the backlog shrinks significantly;    |
         | backlog left by creation                                          | initial copy
         |   by an operator's pause                                          | catching up after a pause
         |   by an instance that lost its session                            | instance lost
         |   by anything else                                                | catching up after an outage
     6   | the datastream's quota throttles the lane or lanes that share the | throttled by our quota
         | quota, or they yield to partitions that would lose records sooner |
         | throttled by a broker's quota                                     | throttled by a broker's quota
     7   | the task's quota throttles the lane or other lanes of its task,   |
         | or its worker process is busy                                     |
         |   one partition carries most of its task's load                   | hot partition
         |   there are several tasks, and quotas throttle all of them        | throttled by our quota
         |   one task uses up the quota or most of the worker's CPU time     | overloaded task
         |   several tasks use up the worker, or it waits for a core         | overloaded instance
     8   | as 5, but the backlog does not shrink                             | as 5
     9   | a cluster has not responded for longer than the objective and 3 s | as 12
         |   and for at least 8 s and twice its usual response time          | as 3
         | most of the latency of its batches is                             |
         |   spent until the destination acknowledges                        | destination-bound
         |   spent in transfer from the source                               | source-bound
         |   spent in both together, but not in one of them                  | network
         |   as the first two (also in 10 and 11), but the window of a distant | network
         |   broker limits the rate, and responses take no longer than usual  |
    10   | batches wait in the mirror's queue for the destination, for most  |
         | of the latency or longer than the objective                       | destination-bound
    11   | batches wait at the source for most of the latency                |
         |   and the backlog shrinks                                         | as 5
         |   and the worker process has capacity left                        | source-bound
    12   | no response for longer than the objective, or for most of the age |
         | of the oldest waiting record                                      |
         |   to the oldest produce request, or a request that precedes it    | destination-bound
         |   to the fetch                                                    | source-bound
         |   to both                                                         | network
    13   | none of these rules applies, and an instance does not respond     | instance lost
         | none of these rules applies                                       | unknown

Latency and age are corrected if timestamps are provably wrong (`mirror/model/movement/append_times.py`).
Wrong timestamps are therefore the cause only if all these conditions hold: no lane is late, every instance
has responded, no lane with a backlog is throttled or has a known origin of its backlog, and a lane would be
late by its uncorrected timestamps. Such a datastream can miss its objective, because records that arrived
before the correction was known were counted as late.

If a lane has neither a backlog nor overdue responses, its late records have all arrived, and it needs no
cause unless its batches still take too long.

If the destination is slow to acknowledge, a few requests are in flight, while the remaining batches wait in
the mirror's queue and, when the queue is full, at the source. If the source is slow to respond, batches only
wait at the source. A busy worker process also makes batches wait at the source; rule 7 comes first to exclude
a busy worker process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from mirror.model.datastreams.lanes import QuotaHold, QuotaOwner
from mirror.model.load import HOT_SHARE
from monitor.causes.diagnosis import UNAVAILABLE, Cause, Diagnosis
from monitor.causes.evidence import LOSSES, BacklogOrigin, Evidence, LaneEvidence, Phases
from monitor.causes.losses import with_explaining_losses
from monitor.causes.sentences import CauseFigures, sentence_of
from monitor.movement.states import MovementState as State

BUSY_CORES: Final = 0.9
"""Load in cores above which a worker process, which copies in one thread, is the bottleneck.

The load includes the time spent waiting for a core.
"""
_LEAST_WAITED: Final = 0.3
"""Share of time waiting for a core, above which other processes on the machine are the cause."""
_FROZEN_SECONDS: Final = 3.0
_TASK_SHARE: Final = 0.6
"""Share of the worker's CPU time above which a single task is the cause."""
_MOST: Final = 0.5
"""Fraction of the latency above which a phase is the bottleneck."""
_LEAST_OF_BOTH: Final = 0.2
_LEAST_LATE: Final = 0.5
_LEAST_TELLING: Final = 0.1
"""Minimum mean latency, as a share of the objective, at which phases can explain late records."""
_IN_TIME: Final = frozenset({None, State.OK, State.PAUSED_BY_USER})
_CALM: Final = _IN_TIME | {State.CATCHING_UP, State.THROTTLED, State.WARN}
"""States in which a lane without a current backlog is not late. A state describes the last few minutes."""
_BEHIND: Final = frozenset({State.THROTTLED, State.WARN})
_ORIGINS: Final = {
    BacklogOrigin.CREATION: Cause.INITIAL_COPY,
    BacklogOrigin.PAUSE: Cause.AFTER_PAUSE,
    BacklogOrigin.WORKER: Cause.WORKER_LOST,
    BacklogOrigin.INSTANCE: Cause.INSTANCE_LOST,
}
_OUR_OWN: Final = frozenset({QuotaOwner.DATASTREAM, QuotaOwner.OTHERS})
_WAITS: Final = {
    State.WAITING_FOR_TRANSACTION: Cause.OPEN_TRANSACTION,
    State.SOURCE_AWAY: Cause.SOURCE_AWAY,
    State.DESTINATION_AWAY: Cause.DESTINATION_AWAY,
}
_GONE_SECONDS: Final = 8.0
_USUAL: Final = 2.0
"""Multiple of the usual response time, above which a response counts as missing."""
_NOT_COPIED: Final = frozenset(
    {State.PAUSED_BY_ITSELF, State.TRUNCATED, State.RECREATED, State.STOP, State.PAUSED_BY_USER}
)


def diagnose(evidence: Evidence, limit_ms: float) -> Diagnosis:
    """Return the cause of latencies above `limit_ms` in a datastream."""
    evidence = with_explaining_losses(evidence, limit_ms)
    lanes = evidence.lanes
    late = [lane for lane in lanes if is_late(lane, limit_ms)]
    by_cause: dict[Cause, list[LaneEvidence]] = {}
    if not late and not evidence.silent:
        late = [
            lane for lane in lanes if not lane.has_no_backlog or (evidence.late and lane.origin in LOSSES)
        ]
        wrong = [lane for lane in lanes if _looks_late(lane, limit_ms)]
        if wrong and all(lane.hold is None and lane.origin is None for lane in late):
            by_cause[Cause.WRONG_TIMESTAMPS] = late = wrong
    if not by_cause:
        of_tasks = evidence.of_tasks
        for lane in late:
            by_cause.setdefault(_cause_of(lane, of_tasks, limit_ms), []).append(lane)
    ranked = sorted(
        by_cause, key=lambda cause: (cause is Cause.UNKNOWN, -len(by_cause[cause]), _ORDER[cause])
    )
    first = ranked[0] if ranked else Cause.UNKNOWN
    if first is Cause.UNKNOWN and evidence.silent:
        first = Cause.INSTANCE_LOST
    others = [cause for cause in ranked[1:] if cause is not Cause.UNKNOWN]
    second = others[0] if others else None
    found = _findings(first, by_cause.get(first, by_cause.get(Cause.UNKNOWN, [])), evidence, len(late))
    sentence = sentence_of(first, found)
    if second is not None:
        more = _findings(second, by_cause[second], evidence, len(late))
        sentence = f"{sentence}; also {sentence_of(second, more)}"
    rests_on_wait = first in _OF_WAITING and all(map(_waited, found.lanes))
    return Diagnosis(first, sentence, found.numbers(), second, found.can_move, rests_on_wait)


_OF_WAITING: Final = (Cause.SOURCE_BOUND, Cause.NETWORK)


def _waited(lane: LaneEvidence) -> bool:
    """Return whether long waits at the source are the only sign that the source delays a lane."""
    is_asked = lane.state is State.SOURCE_AWAY or lane.fetch_unanswered is not None
    phases = lane.phases
    return not is_asked and phases is not None and phases.wait > _MOST * phases.total


_ORDER: Final = {cause: number for number, cause in enumerate(Cause)}


def is_late(lane: LaneEvidence, limit_ms: float) -> bool:
    """Return whether the records of a lane are late, as defined in the module docstring."""
    if lane.is_starting or lane.state not in (_CALM if lane.has_no_backlog else _IN_TIME):
        return True
    if lane.lag_ms is not None and lane.lag_ms > limit_ms:
        return True
    if max(lane.fetch_unanswered or 0.0, lane.produce_unanswered or 0.0) * 1000 > limit_ms:
        return True
    return lane.phases is not None and lane.phases.total > limit_ms


def _looks_late(lane: LaneEvidence, limit_ms: float) -> bool:
    """Return whether records would be late by their timestamps if wrong timestamps were not corrected."""
    total_ms = lane.phases.total if lane.phases is not None else 0.0
    behind_ms = -(lane.timestamp_offset or 0.0) * 1000
    return behind_ms > 0 and behind_ms + total_ms > limit_ms


def _cause_of(lane: LaneEvidence, lanes: Sequence[LaneEvidence], limit_ms: float) -> Cause:
    still = _stalled(lane)
    if still is not None:
        return still
    if lane.is_starting:
        return Cause.START_UP
    if lane.state is State.CATCHING_UP and lane.eta_seconds is not None:
        return _catch_up(lane)
    if _is_known_to_catch_up(lane, limit_ms):
        return _catch_up(lane)
    hold = hold_of(lane, lanes)
    quota = _quota(lane, hold, lanes)
    if quota is not None:
        return quota
    overload = _overload(lane, hold, lanes)
    if (
        overload is None
        and lane.origin is not None
        and (lane.origin in _ORIGINS or not _is_slow(lane, limit_ms))
    ):
        return _catch_up(lane)
    return (
        overload
        or _frozen(lane, limit_ms)
        or _bound(lane, lane.phases, limit_ms)
        or _unanswered(lane, limit_ms)
    )


def _stalled(lane: LaneEvidence) -> Cause | None:
    """Return the cause according to rules 1 to 3; None if they do not apply. A stopped partition with an
    owner has lost its worker."""
    if lane.state is State.STOP and lane.task is not None and lane.instance:
        return Cause.WORKER_LOST
    if lane.state in _NOT_COPIED:
        return Cause.PAUSED
    return None if lane.state is None else _WAITS.get(lane.state)


def _frozen(lane: LaneEvidence, limit_ms: float) -> Cause | None:
    """Return the cause according to rule 9 if a cluster does not respond; otherwise None."""
    longest = max(lane.fetch_unanswered or 0.0, lane.produce_unanswered or 0.0)
    if longest <= max(limit_ms / 1000, _FROZEN_SECONDS):
        return None
    found = _unanswered(lane, limit_ms)
    usual_ms = 0.0
    if lane.phases is not None and found in UNAVAILABLE:
        usual_ms = lane.phases.fetch if found is Cause.SOURCE_BOUND else lane.phases.produce
    if longest >= max(_GONE_SECONDS, _USUAL * usual_ms / 1000):
        found = UNAVAILABLE.get(found, found)
    elif longest < _USUAL * usual_ms / 1000:
        found = _by_window(lane, found)
    return None if found is Cause.UNKNOWN else found


def _is_known_to_catch_up(lane: LaneEvidence, limit_ms: float) -> bool:
    """Return whether the origin of a lane's backlog is known and the lane may be catching up.

    Returns True for the creation or an operator's pause even if a cluster does not respond.
    """
    if lane.origin in LOSSES:
        by_task = lane.hold is not None and lane.hold.owner is QuotaOwner.TASK
        return by_task or lane.state is not State.THROTTLED
    if lane.origin is None or lane.state in _BEHIND:
        return False
    return lane.origin in _ORIGINS or not _is_slow(lane, limit_ms)


def _is_slow(lane: LaneEvidence, limit_ms: float) -> bool:
    """Return whether a cluster responds slowly or not at all to a lane, or is so distant that this limits the
    rate."""
    has_window = lane.source_window is not None or lane.destination_window is not None
    if has_window and _bound(lane, lane.phases, limit_ms) is Cause.NETWORK:
        return True
    if lane.fetch_unanswered is not None or lane.produce_unanswered is not None:
        return True
    return lane.phases is not None and max(lane.phases.fetch, lane.phases.produce) > _MOST * lane.phases.total


def _catch_up(lane: LaneEvidence) -> Cause:
    return Cause.BACKLOG if lane.origin is None else _ORIGINS.get(lane.origin, Cause.BACKLOG)


def hold_of(lane: LaneEvidence, lanes: Sequence[LaneEvidence]) -> QuotaHold | None:
    """Return the quota that throttles a lane; None if none does.

    Lanes use a shared quota in turn, so a quota that throttles one lane is returned for all of them.
    """
    if lane.hold is not None or not _waits_in_front(lane):
        return lane.hold
    shared = [
        other.hold
        for other in lanes
        if other.hold is not None
        and (
            (other.hold.owner is QuotaOwner.TASK and other.task == lane.task)
            or (other.hold.owner in _OUR_OWN and other.worker == lane.worker)
        )
    ]
    return max(shared, key=lambda cause: cause.share, default=None)


def _waits_in_front(lane: LaneEvidence) -> bool:
    """Return whether records spend most of their latency waiting at the source; True if unknown."""
    phases = lane.phases
    return phases is None or phases.wait > _MOST * phases.total


def _quota(lane: LaneEvidence, hold: QuotaHold | None, lanes: Sequence[LaneEvidence]) -> Cause | None:
    if hold is None or hold.owner is QuotaOwner.TASK:
        held = {
            other.task for other in lanes if other.hold is not None and other.hold.owner is QuotaOwner.TASK
        }
        tasks = {other.task for other in lanes}
        are_all = hold is not None and len(tasks) > 1 and held == tasks
        is_hot = are_all and hottest(lanes_of_task(lane.task, lanes)) is not None
        return Cause.OUR_QUOTA if are_all and not is_hot else None
    return Cause.OUR_QUOTA if hold.owner in _OUR_OWN else Cause.BROKER_QUOTA


def _overload(lane: LaneEvidence, hold: QuotaHold | None, lanes: Sequence[LaneEvidence]) -> Cause | None:
    is_held = hold is not None
    if not is_held and not _is_busy(lane):
        return None
    task_lanes = lanes_of_task(lane.task, lanes)
    if not is_held and (lane.worker_waited or 0.0) >= _LEAST_WAITED:
        return Cause.OVERLOADED_INSTANCE
    if is_held or _keeps_busy(task_lanes, lane):
        return Cause.HOT_PARTITION if hottest(task_lanes) is not None else Cause.OVERLOADED_TASK
    return Cause.OVERLOADED_INSTANCE


def _is_busy(lane: LaneEvidence) -> bool:
    if lane.worker_cpu is None:
        return False
    return lane.worker_cpu + (lane.worker_waited or 0.0) >= BUSY_CORES


def _keeps_busy(task_lanes: Sequence[LaneEvidence], lane: LaneEvidence) -> bool:
    """Return whether a task causes most of the CPU use of its worker process."""
    spent = sum(task_lane.cpu or 0.0 for task_lane in task_lanes)
    return lane.worker_cpu is not None and spent >= _TASK_SHARE * lane.worker_cpu


def lanes_of_task(task: str | None, lanes: Sequence[LaneEvidence]) -> list[LaneEvidence]:
    """Return all lanes of the task."""
    return [lane for lane in lanes if lane.task == task]


def hottest(task_lanes: Sequence[LaneEvidence]) -> LaneEvidence | None:
    """Return the lane that has most of its task's load; None if no lane exceeds the share `HOT_SHARE`."""
    total = sum(lane.bytes_per_second or 0.0 for lane in task_lanes)
    top = max(task_lanes, key=lambda lane: (lane.bytes_per_second or 0.0, lane.partition))
    return top if total > 0 and (top.bytes_per_second or 0.0) > HOT_SHARE * total else None


def _bound(lane: LaneEvidence, phases: Phases | None, limit_ms: float) -> Cause | None:
    """Return the cause for which one phase accounts for most of a lane's latency; None if no phase does.

    Callers have excluded quotas and the worker process as the bottleneck.
    """
    if phases is None or phases.total <= 0 or not _explains(lane, phases, limit_ms):
        return None
    total, behind = phases.total, phases.queue + phases.produce
    if phases.produce > _MOST * total:
        return _by_window(lane, Cause.DESTINATION_BOUND)
    if phases.fetch > _MOST * total:
        return _by_window(lane, Cause.SOURCE_BOUND)
    if min(phases.produce, phases.fetch) >= _LEAST_OF_BOTH * total:
        return Cause.NETWORK
    has_time = lane.worker_cpu is not None
    if behind > min(_MOST * total, limit_ms) and (has_time or phases.produce >= _LEAST_OF_BOTH * behind):
        return _by_window(lane, Cause.DESTINATION_BOUND)
    if phases.wait > _MOST * total and lane.state is State.CATCHING_UP:
        return _catch_up(lane)
    if phases.wait <= _MOST * total or not has_time:
        return None
    # Records that the mirror cannot send in time wait at the source, because its queue is full.
    return Cause.NETWORK if lane.destination_window is not None else _by_window(lane, Cause.SOURCE_BOUND)


def _by_window(lane: LaneEvidence, found: Cause) -> Cause:
    """Return NETWORK instead of `found` if a small TCP window to the cluster limits the rate."""
    windows = {Cause.SOURCE_BOUND: lane.source_window, Cause.DESTINATION_BOUND: lane.destination_window}
    return Cause.NETWORK if windows.get(found) is not None else found


def _unanswered(lane: LaneEvidence, limit_ms: float) -> Cause:
    """Return the cause if requests of a lane lack a response. Their batches have no measured latency yet."""
    is_waiting = lane.lag_ms is not None and lane.lag_ms > limit_ms
    least = min(limit_ms, _MOST * (lane.lag_ms or 0)) if is_waiting else limit_ms
    fetch, produce = (
        seconds is not None and seconds * 1000 > least
        for seconds in (lane.fetch_unanswered, lane.produce_unanswered)
    )
    if fetch and produce:
        return Cause.NETWORK
    if fetch or produce:
        return Cause.SOURCE_BOUND if fetch else Cause.DESTINATION_BOUND
    return Cause.UNKNOWN


def _explains(lane: LaneEvidence, phases: Phases, limit_ms: float) -> bool:
    """Return whether the latencies of arrived records are high enough to explain the late records.

    If late records wait, the mean latency must be at least half of the objective, otherwise at least a tenth.
    """
    is_waiting = lane.lag_ms is not None and lane.lag_ms > limit_ms
    return phases.total >= limit_ms * (_LEAST_LATE if is_waiting else _LEAST_TELLING)


def _findings(cause: Cause, lanes: Sequence[LaneEvidence], evidence: Evidence, late: int) -> CauseFigures:
    task_lanes: Sequence[LaneEvidence] = ()
    hot = None
    if cause in (Cause.HOT_PARTITION, Cause.OVERLOADED_TASK, Cause.OVERLOADED_INSTANCE):
        (task, _), *_ = Counter(lane.task for lane in lanes).most_common(1)
        task_lanes = lanes_of_task(task, evidence.of_tasks)
        hot = hottest(task_lanes) if cause is Cause.HOT_PARTITION else None
    can_move = cause is Cause.OVERLOADED_INSTANCE or len(task_lanes) > 1
    held: tuple[QuotaHold, ...] = ()
    if cause in (Cause.OUR_QUOTA, Cause.HOT_PARTITION, Cause.OVERLOADED_TASK):
        held = tuple(filter(None, (hold_of(lane, evidence.of_tasks) for lane in lanes)))
    if cause is Cause.OUR_QUOTA:
        can_move = any(hold.owner is QuotaOwner.TASK for hold in held)
    return CauseFigures(tuple(lanes), late, tuple(task_lanes), hot, evidence.silent, can_move, held)
