"""From evidence to a diagnosis. Pure.

Each late lane has one cause, that of the first rule that fits it. The cause of most of them is the
datastream's, and the one of the next most is named beside it. A lane is late when its oldest waiting record,
the mean latency of its batches or an answer that it waits for is beyond the objective, or when it does not
copy or does not come nearer to the end; where that is so of none, and every instance was heard, all are
looked at.

    rule | holds of a late lane                                              | cause
    -----|-------------------------------------------------------------------|---------------------------------
     1   | its worker process does not answer, or was lost at most ten       | worker process lost
         | minutes ago and it has been behind since                          |
         | it does not copy: somebody or it itself paused it, or nobody has  | paused
         | it                                                                |
     2   | an open transaction at the source hides what waits                | open transaction
     3   | it waits for a cluster that does not answer                       | source-bound, destination-bound
     4   | it begins                                                         | start-up
     5   | it has been behind since it began, or what waits becomes less and |
         | chance does not explain that; left by a creation                  | initial copy
         |   by a pause of a person                                          | catching up after a pause
         |   by anything else                                                | catching up after an outage
     6   | a quota of its datastream, or the precedence of others, holds it  | throttled by our quota
         | or lanes beside it back                                           |
         | a quota of brokers holds it back                                  | throttled by a broker's quota
     7   | its task's quota holds it or lanes beside it back, or its worker  |
         | process is busy                                                   |
         |   one partition carries most of its task                          | hot partition
         |   every task of several is held back by its quota                 | throttled by our quota
         |   its task alone keeps quota or worker busy                       | overloaded task
         |   several tasks do, or the process waits for a core               | overloaded instance
     8   | as 5, and what waits does not become less                         | as 5
     9   | a cluster has not answered for longer than the objective and 3 s  | as 12
         | most of the latency of its batches is                             |
         |   spent until the destination acknowledges                        | destination-bound
         |   spent being received                                            | source-bound
         |   spent in both, neither alone                                    | network
    10   | they wait in our queue for the destination, for most of it or for |
         | longer than the objective                                         | destination-bound
    11   | they wait at the source for most of it: and become fewer          | as 5
         | the worker process has time                                       | source-bound
    12   | no answer has come for longer than the objective, or for most of  |
         | the age of what waits                                             |
         |   to the oldest produce request, or what is asked before it       | destination-bound
         |   to the fetch                                                    | source-bound
         |   to both                                                         | network
    13   | otherwise                                                         | unknown

A lane for which nothing waits, and that no answer is overdue for, is late by what has arrived at most: there
is nothing to explain any more, unless its batches still take too long.

A destination that is slow to acknowledge has a few requests under way, and the rest waits in the queue, until
that is full; then it waits at the source. A source that is slow to answer shows only as waiting there. So who
waits for whom is known by what the worker process does meanwhile (rule 7 comes first).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from mirror.model.datastreams.lanes import QuotaHold, QuotaOwner
from mirror.model.load import HOT_SHARE
from monitor.causes.diagnosis import Cause, Diagnosis
from monitor.causes.evidence import Evidence, LaneEvidence, Origin, Phases
from monitor.causes.sentences import Findings, sentence_of
from monitor.movement.states import MovementState as State

BUSY_CORES: Final = 0.9
"""Of one worker process, which has one thread that copies: above that it is what everything waits for. The
time in which it waits for a core counts."""
_LEAST_WAITED: Final = 0.3
"""Of the time: from then on it is others on the machine that keep it from copying."""
_FROZEN_SECONDS: Final = 3.0
_TASK_SHARE: Final = 0.6
"""Of its worker's CPU time: above that the task alone keeps it busy."""
_MOST: Final = 0.5
"""Of the latency: what takes more is what it is bound by."""
_LEAST_OF_BOTH: Final = 0.2
_IN_TIME: Final = frozenset({None, State.OK, State.PAUSED_BY_USER})
_CALM: Final = _IN_TIME | {State.CATCHING_UP, State.THROTTLED, State.WARN}
"""States of the last minutes, of a lane for which nothing waits now."""
_BEHIND: Final = frozenset({State.THROTTLED, State.WARN})
_ORIGINS: Final = {
    Origin.CREATION: Cause.INITIAL_COPY,
    Origin.PAUSE: Cause.AFTER_PAUSE,
    Origin.WORKER: Cause.WORKER_LOST,
}
_OUR_OWN: Final = frozenset({QuotaOwner.DATASTREAM, QuotaOwner.OTHERS})
_WAITS: Final = {
    State.WAITING_FOR_TRANSACTION: Cause.OPEN_TRANSACTION,
    State.SOURCE_AWAY: Cause.SOURCE_BOUND,
    State.DESTINATION_AWAY: Cause.DESTINATION_BOUND,
}
_NOT_COPIED: Final = frozenset(
    {State.PAUSED_BY_ITSELF, State.TRUNCATED, State.RECREATED, State.STOP, State.PAUSED_BY_USER}
)


def diagnose(evidence: Evidence, limit_ms: float) -> Diagnosis:
    """Why records are later than `limit_ms`."""
    lanes = evidence.lanes
    late = [lane for lane in lanes if is_late(lane, limit_ms)]
    if not late and not evidence.silent:
        late = [lane for lane in lanes if not lane.waits_for_nothing]
    by_cause: dict[Cause, list[LaneEvidence]] = {}
    of_tasks = evidence.of_tasks
    for lane in late:
        by_cause.setdefault(_cause_of(lane, of_tasks, limit_ms), []).append(lane)
    ranked = sorted(by_cause, key=lambda one: (one is Cause.UNKNOWN, -len(by_cause[one]), _ORDER[one]))
    first = ranked[0] if ranked else Cause.UNKNOWN
    others = [one for one in ranked[1:] if one is not Cause.UNKNOWN]
    second = others[0] if others else None
    found = _findings(first, by_cause.get(first, []), evidence, len(late))
    sentence = sentence_of(first, found)
    if second is not None:
        more = _findings(second, by_cause[second], evidence, len(late))
        sentence = f"{sentence}; besides, {sentence_of(second, more)}"
    rests_on_wait = first is Cause.SOURCE_BOUND and all(map(_waited, found.lanes))
    return Diagnosis(first, sentence, found.numbers(), second, found.can_move, rests_on_wait)


def _waited(lane: LaneEvidence) -> bool:
    """Whether only the time at the source says that it is source-bound."""
    is_asked = lane.state is State.SOURCE_AWAY or lane.fetch_unanswered is not None
    phases = lane.phases
    return not is_asked and phases is not None and phases.wait > _MOST * phases.total


_ORDER: Final = {cause: number for number, cause in enumerate(Cause)}


def is_late(lane: LaneEvidence, limit_ms: float) -> bool:
    """See the module."""
    if lane.is_starting or lane.state not in (_CALM if lane.waits_for_nothing else _IN_TIME):
        return True
    if lane.lag_ms is not None and lane.lag_ms > limit_ms:
        return True
    if max(lane.fetch_unanswered or 0.0, lane.produce_unanswered or 0.0) * 1000 > limit_ms:
        return True
    return lane.phases is not None and lane.phases.total > limit_ms


def _cause_of(lane: LaneEvidence, lanes: Sequence[LaneEvidence], limit_ms: float) -> Cause:
    still = _standing_still(lane)
    if still is not None:
        return still
    if lane.is_starting:
        return Cause.START_UP
    if lane.state is State.CATCHING_UP and lane.eta_seconds is not None:
        return _catch_up(lane)
    if _is_known_to_catch_up(lane):
        return _catch_up(lane)
    hold = hold_of(lane, lanes)
    quota = _quota(lane, hold, lanes)
    if quota is not None:
        return quota
    overload = _overload(lane, hold, lanes)
    if overload is None and lane.origin is not None and (lane.origin in _ORIGINS or not _is_slow(lane)):
        return _catch_up(lane)
    return (
        overload
        or _frozen(lane, limit_ms)
        or _bound(lane, lane.phases, limit_ms)
        or _unanswered(lane, limit_ms)
    )


def _standing_still(lane: LaneEvidence) -> Cause | None:
    """Rules 1 to 3. A partition that nobody copies, and that an instance has, has lost its worker process."""
    if lane.state is State.STOP and lane.task is not None and lane.instance:
        return Cause.WORKER_LOST
    if lane.state in _NOT_COPIED:
        return Cause.PAUSED
    return None if lane.state is None else _WAITS.get(lane.state)


def _frozen(lane: LaneEvidence, limit_ms: float) -> Cause | None:
    """A cluster that has not answered for longer than the objective: phases are those of batches before."""
    longest = max(lane.fetch_unanswered or 0.0, lane.produce_unanswered or 0.0)
    if longest <= max(limit_ms / 1000, _FROZEN_SECONDS):
        return None
    found = _unanswered(lane, limit_ms)
    return None if found is Cause.UNKNOWN else found


def _is_known_to_catch_up(lane: LaneEvidence) -> bool:
    """Whether what a lane is behind for is known, and it may come nearer. What a person has left counts
    whatever the clusters do meanwhile."""
    if lane.origin is Origin.WORKER:
        return lane.state is not State.THROTTLED
    if lane.origin is None or lane.state in _BEHIND:
        return False
    return lane.origin in _ORIGINS or not _is_slow(lane)


def _is_slow(lane: LaneEvidence) -> bool:
    """Whether a cluster takes long to answer, or has not answered."""
    if lane.fetch_unanswered is not None or lane.produce_unanswered is not None:
        return True
    return lane.phases is not None and max(lane.phases.fetch, lane.phases.produce) > _MOST * lane.phases.total


def _catch_up(lane: LaneEvidence) -> Cause:
    return Cause.BACKLOG if lane.origin is None else _ORIGINS.get(lane.origin, Cause.BACKLOG)


def hold_of(lane: LaneEvidence, lanes: Sequence[LaneEvidence]) -> QuotaHold | None:
    """The quota that holds a lane back, or one that it shares with a lane that is held back: such a quota
    lets lanes pass in turn, and the others wait meanwhile."""
    if lane.hold is not None or not _waits_in_front(lane):
        return lane.hold
    shared = [
        one.hold
        for one in lanes
        if one.hold is not None
        and (
            (one.hold.owner is QuotaOwner.TASK and one.task == lane.task)
            or (one.hold.owner in _OUR_OWN and one.worker == lane.worker)
        )
    ]
    return max(shared, key=lambda one: one.share, default=None)


def _waits_in_front(lane: LaneEvidence) -> bool:
    """Whether records wait to be read, as far as that is known."""
    phases = lane.phases
    return phases is None or phases.wait > _MOST * phases.total


def _quota(lane: LaneEvidence, hold: QuotaHold | None, lanes: Sequence[LaneEvidence]) -> Cause | None:
    if hold is None or hold.owner is QuotaOwner.TASK:
        held = {one.task for one in lanes if one.hold is not None and one.hold.owner is QuotaOwner.TASK}
        tasks = {one.task for one in lanes}
        are_all = hold is not None and len(tasks) > 1 and held == tasks
        is_hot = are_all and hottest(mates_of(lane.task, lanes)) is not None
        return Cause.OUR_QUOTA if are_all and not is_hot else None
    return Cause.OUR_QUOTA if hold.owner in _OUR_OWN else Cause.BROKER_QUOTA


def _overload(lane: LaneEvidence, hold: QuotaHold | None, lanes: Sequence[LaneEvidence]) -> Cause | None:
    is_held = hold is not None
    if not is_held and not _is_busy(lane):
        return None
    mates = mates_of(lane.task, lanes)
    if not is_held and (lane.worker_waited or 0.0) >= _LEAST_WAITED:
        return Cause.OVERLOADED_INSTANCE
    if is_held or _keeps_busy(mates, lane):
        return Cause.HOT_PARTITION if hottest(mates) is not None else Cause.OVERLOADED_TASK
    return Cause.OVERLOADED_INSTANCE


def _is_busy(lane: LaneEvidence) -> bool:
    if lane.worker_cpu is None:
        return False
    return lane.worker_cpu + (lane.worker_waited or 0.0) >= BUSY_CORES


def _keeps_busy(mates: Sequence[LaneEvidence], lane: LaneEvidence) -> bool:
    """Whether the task takes most of what its worker does."""
    spent = sum(one.cpu or 0.0 for one in mates)
    return lane.worker_cpu is not None and spent >= _TASK_SHARE * lane.worker_cpu


def mates_of(task: str | None, lanes: Sequence[LaneEvidence]) -> list[LaneEvidence]:
    """All lanes of the task."""
    return [one for one in lanes if one.task == task]


def hottest(mates: Sequence[LaneEvidence]) -> LaneEvidence | None:
    """The partition that carries most of its task; None where there is none."""
    total = sum(one.bytes_per_second or 0.0 for one in mates)
    top = max(mates, key=lambda one: (one.bytes_per_second or 0.0, one.partition))
    return top if total > 0 and (top.bytes_per_second or 0.0) > HOT_SHARE * total else None


def _bound(lane: LaneEvidence, phases: Phases | None, limit_ms: float) -> Cause | None:
    """By where the latency is spent, of a lane that neither a quota nor a busy process holds back."""
    if phases is None or phases.total <= 0 or not _explains(lane, phases, limit_ms):
        return None
    total, behind = phases.total, phases.queue + phases.produce
    if phases.produce > _MOST * total:
        return Cause.DESTINATION_BOUND
    if phases.fetch > _MOST * total:
        return Cause.SOURCE_BOUND
    if min(phases.produce, phases.fetch) >= _LEAST_OF_BOTH * total:
        return Cause.NETWORK
    has_time = lane.worker_cpu is not None
    if behind > min(_MOST * total, limit_ms) and (has_time or phases.produce >= _LEAST_OF_BOTH * behind):
        return Cause.DESTINATION_BOUND
    if phases.wait > _MOST * total and lane.state is State.CATCHING_UP:
        return _catch_up(lane)
    return Cause.SOURCE_BOUND if phases.wait > _MOST * total and has_time else None


def _unanswered(lane: LaneEvidence, limit_ms: float) -> Cause:
    """By what it waits for now: what is not acknowledged has no latency yet."""
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
    """Whether what arrived was late, where what waits is: else its latency says nothing of that."""
    is_waiting = lane.lag_ms is not None and lane.lag_ms > limit_ms
    return not is_waiting or phases.total >= limit_ms / 2


def _findings(cause: Cause, lanes: Sequence[LaneEvidence], evidence: Evidence, late: int) -> Findings:
    mates: Sequence[LaneEvidence] = ()
    hot = None
    if cause in (Cause.HOT_PARTITION, Cause.OVERLOADED_TASK, Cause.OVERLOADED_INSTANCE):
        (task, _), *_ = Counter(one.task for one in lanes).most_common(1)
        mates = mates_of(task, evidence.of_tasks)
        hot = hottest(mates) if cause is Cause.HOT_PARTITION else None
    can_move = cause is Cause.OVERLOADED_INSTANCE or len(mates) > 1
    held: tuple[QuotaHold, ...] = ()
    if cause in (Cause.OUR_QUOTA, Cause.HOT_PARTITION, Cause.OVERLOADED_TASK):
        held = tuple(filter(None, (hold_of(one, evidence.of_tasks) for one in lanes)))
    if cause is Cause.OUR_QUOTA:
        can_move = any(one.owner is QuotaOwner.TASK for one in held)
    return Findings(tuple(lanes), late, tuple(mates), hot, evidence.silent, can_move, held)
