"""Determines the state of a lane from the movement of its position and other facts. Pure.

The first matching rule decides. A record is late if it has waited for more than 10 s (`LATE_MS`). The wait
starts at the record's timestamp or at the time when the source's end offset passed the record, whichever is
later. A record of unknown age counts as late.

    rule | condition                                                          | state
    -----|--------------------------------------------------------------------|---------------------------
     1   | paused by an operator                                              | PAUSED_BY_USER
     2   | no owner, or its worker process does not respond                   | STOP
     3   | paused: the source has lost records or has another history         | TRUNCATED
     4   | paused: the source topic was recreated                             | RECREATED
     5   | waits for a cluster that does not respond or has no leader         | SOURCE_AWAY, DESTINATION_AWAY
     6   | reported as blocked by an open transaction                         | WAITING_FOR_TRANSACTION
     7   | paused for any other reason                                        | PAUSED_BY_ITSELF
     8   | no report since the lane started                                   |
         |   for `patience` while copying                                     | SOURCE_AWAY
         |   for `patience` while starting                                    | STALL
         |   for less than `patience`                                         | none: still unknown
     9   | records waited at its last report, which is older than `silence`   | STOP
    10   | nothing to read, and the end offset of the source is unknown       |
         |   while a quota throttles the lane                                 | THROTTLED
         |   for `patience`                                                   | SOURCE_AWAY
         |   for less than `patience`                                         | none: still unknown
         | whole backlog hidden by a transaction for `stall`                  | WAITING_FOR_TRANSACTION
    11   | late records can be read, but no progress for `stall`              | THROTTLED, else STALL
    12   | the position went back and has not reached its former value        | REWIND
    13   | no record is late                                                  | OK
    14   | the backlog shrinks significantly                                  | CATCHING_UP with an ETA
    15   | throttled by a quota                                               | THROTTLED
    16   | late for less than `patience`, and the backlog shrinks             | CATCHING_UP without an ETA
    17   | otherwise                                                          | WARN

Neither a single dip of the lag (rules 13 and 14) nor an advancing position (rule 17) is enough for OK. An
idle topic remains OK: lanes without new records do not report, and the state STOP requires waiting records.
A small backlog is OK as long as its records are not late (rule 13).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mirror.model.datastreams.lanes import PauseCause
from mirror.model.movement.history import SILENCE_SECONDS, LaneHistory, LaneSample
from mirror.model.movement.loss import (
    SLOPE_SECONDS,
    backlog_share,
    is_long_enough,
    loss_as_it_moves,
    seconds_to_loss,
)
from mirror.wording import counted, duration_text
from monitor.movement.catch_up import approach, eta_seconds
from monitor.movement.states import LaneActivity, LaneFacts, LaneJudgement, MovementState

_S = MovementState
_MOVING: Final = frozenset({_S.CATCHING_UP, _S.THROTTLED, _S.WARN})
"""States in which the lane copies its backlog, fast or slowly."""
_BY_CAUSE: Final = {
    PauseCause.SILENT_WORKER: _S.STOP,
    PauseCause.NO_WORKER: _S.STOP,
    PauseCause.TRUNCATED: _S.TRUNCATED,
    PauseCause.RECREATED: _S.RECREATED,
    PauseCause.SOURCE_AWAY: _S.SOURCE_AWAY,
    PauseCause.DESTINATION_AWAY: _S.DESTINATION_AWAY,
    PauseCause.OPEN_TRANSACTION: _S.WAITING_FOR_TRANSACTION,
    PauseCause.NO_TOPIC: _S.PAUSED_BY_ITSELF,
    PauseCause.OTHER: _S.PAUSED_BY_ITSELF,
}


_WITHOUT_PROCESS: Final = frozenset({PauseCause.SILENT_WORKER, PauseCause.NO_WORKER})


@dataclass(frozen=True, slots=True)
class MovementRules:
    """Seconds for which conditions must last before the rules about them apply.

    `patience_seconds`: information is missing. `stall_seconds`: the position does not change.
    `silence_seconds`: a lane with waiting records sends no report; longer than two report intervals.
    """

    patience_seconds: float = 15.0
    stall_seconds: float = 20.0
    silence_seconds: float = SILENCE_SECONDS


DEFAULT_RULES: Final = MovementRules()


def judge_lane(
    history: LaneHistory, facts: LaneFacts, now: float, rules: MovementRules = DEFAULT_RULES
) -> LaneJudgement:
    """Return the state of a lane. All times are monotonic seconds of the instance that recorded `history`."""
    found = _by_facts(facts) or _by_silence(history, facts, now, rules)
    if found is None:
        newest = history.newest
        assert newest is not None, "without a report silence has decided"
        found = (
            _by_end(history, newest, facts, now, rules)
            or _by_place(history, facts, now, rules)
            or _by_movement(history, facts, now, rules)
        )
    left, hidden_ms = seconds_to_loss(history, now), _hidden_ms(history, now)
    if left is None and hidden_ms is None:
        return found
    found = found._replace(seconds_to_loss=left, hidden_ms=hidden_ms)
    if not found.loses_data:
        return found
    return found._replace(keeps_ahead=_keeps_ahead(found, history, now), backlog_share=backlog_share(history))


def _keeps_ahead(found: LaneJudgement, history: LaneHistory, now: float) -> bool:
    """Return whether a lane copies its records before retention at the source deletes them.

    Also True if the lane has not been observed for long enough. If the backlog shrinks significantly, its
    rate is measured from the peak.
    """
    if found.state not in _MOVING:
        return False
    is_far = found.seconds_to_loss is not None and found.seconds_to_loss > SLOPE_SECONDS
    if is_far and not is_long_enough(history):
        return True
    falling = approach(history)
    since = falling.since if falling is not None and falling.is_certain and falling.per_second > 0 else None
    loss = loss_as_it_moves(history, now, since)
    return loss is None or (found.eta_seconds is not None and found.eta_seconds <= loss)


def _hidden_ms(history: LaneHistory, now: float) -> int | None:
    newest = history.newest
    if newest is None or not newest.is_held or newest.hidden_ms is None:
        return None
    return newest.hidden_ms + int((now - newest.at) * 1000)


def _by_facts(facts: LaneFacts) -> LaneJudgement | None:
    """Return the state of a lane according to rules 1 to 7; None if none applies."""
    if facts.by_user:
        return LaneJudgement(_S.PAUSED_BY_USER, facts.reason, facts.since)
    lacks_process = facts.cause in _WITHOUT_PROCESS
    if facts.activity is LaneActivity.UNCOPIED:
        return LaneJudgement(_S.STOP, facts.reason, facts.since, lacks_process=lacks_process)
    if facts.activity is LaneActivity.PAUSED:
        return LaneJudgement(
            _BY_CAUSE[facts.cause],
            facts.reason,
            facts.since,
            lacks_process=lacks_process,
            offset=facts.offset,
        )
    return None


def _by_silence(
    history: LaneHistory, facts: LaneFacts, now: float, rules: MovementRules
) -> LaneJudgement | None:
    """Return the state of a lane according to rules 8 and 9; None if none applies."""
    newest = history.newest
    if newest is None:
        if facts.since is None or now - facts.since <= rules.patience_seconds:
            return LaneJudgement(None, "no report yet")
        if facts.activity is LaneActivity.BEGINNING:
            return LaneJudgement(_S.STALL, "the lane does not start copying", facts.since)
        return LaneJudgement(_S.SOURCE_AWAY, "the source has not reported its end offset", facts.since)
    silent = now - newest.at
    if newest.waiting > 0 and silent > rules.silence_seconds:
        waited = counted(newest.waiting, "record")
        reason = f"no report for {duration_text(silent)}, while {waited} waited"
        return LaneJudgement(_S.STOP, reason, newest.at)
    return None


def _by_end(
    history: LaneHistory, newest: LaneSample, facts: LaneFacts, now: float, rules: MovementRules
) -> LaneJudgement | None:
    """Return the state of a lane according to rule 10; None if it does not apply."""
    unreported, held = history.unheard_since, history.held_since
    if unreported is not None:
        if facts.throttled:
            return LaneJudgement(_S.THROTTLED, facts.throttled, unreported)
        if now - unreported > rules.patience_seconds:
            return LaneJudgement(_S.SOURCE_AWAY, "the source does not report its end offset", unreported)
        return LaneJudgement(None, "the source has not reported its end offset recently")
    if held is not None and now - held > rules.stall_seconds:
        hidden = newest.end - newest.checkpoint
        reason = (
            f"an open transaction at the source hides {counted(hidden, 'record')}"
            f" from offset {newest.checkpoint}"
        )
        if newest.hidden_ms is not None:
            reason += f"; the first was {duration_text(newest.hidden_ms / 1000)} old at the last report"
        return LaneJudgement(_S.WAITING_FOR_TRANSACTION, reason, held)
    return None


def _by_place(
    history: LaneHistory, facts: LaneFacts, now: float, rules: MovementRules
) -> LaneJudgement | None:
    """Return the state of a lane according to rules 11 to 13; None if none applies."""
    late, stuck, rewind = history.late_since, history.stuck_since, history.rewind
    if late is not None and stuck is not None and now - stuck > rules.stall_seconds:
        if facts.throttled:
            return LaneJudgement(_S.THROTTLED, facts.throttled, stuck)
        stays_at, waiting = history.waypoints[-1].checkpoint, counted(history.waits[-1], "record")
        return LaneJudgement(_S.STALL, f"{waiting} to read, but no progress at offset {stays_at}", stuck)
    if rewind is not None:
        reason = f"source offsets {rewind.down_to} to {rewind.reached - 1} are copied a second time"
        return LaneJudgement(_S.REWIND, reason, rewind.at)
    return LaneJudgement(_S.OK) if late is None else None


def _by_movement(history: LaneHistory, facts: LaneFacts, now: float, rules: MovementRules) -> LaneJudgement:
    """Return the state of a lane according to rules 14 to 17. One of these rules always applies."""
    late, waiting = history.late_since, history.waits[-1]
    they_wait = counted(waiting, "record waits", "records wait")
    found = approach(history)
    eta = eta_seconds(found, history, now)
    if eta is not None:
        reason = "; ".join(
            filter(None, (f"{they_wait}; about {duration_text(eta)} to catch up", facts.throttled))
        )
        return LaneJudgement(_S.CATCHING_UP, reason, late, eta)
    if facts.throttled:
        return LaneJudgement(_S.THROTTLED, facts.throttled, late)
    is_new = late is not None and now - late <= rules.patience_seconds
    if is_new and found is not None and found.per_second > 0:
        return LaneJudgement(_S.CATCHING_UP, they_wait, late)
    stay = "is not copied" if waiting == 1 else "the backlog does not shrink"
    return LaneJudgement(_S.WARN, f"{they_wait}, and {stay}", late)
