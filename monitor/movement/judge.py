"""From a lane's movement, and what is known of it besides, to its state. Pure.

The first rule that fits decides. "Late": a record has waited for more than 10 s (`LATE_MS`), by its time
stamp or by when the source's end passed it, whichever is less; a record whose age nobody knows is late.

    rule | holds                                                              | state
    -----|--------------------------------------------------------------------|---------------------------
     1   | a person paused it                                                 | PAUSED_BY_USER
     2   | nobody copies it, or its worker process does not answer            | STOP
     3   | it paused: the source has lost records, or has another history     | TRUNCATED
     4   | it paused: the source's topic is another one                       | RECREATED
     5   | it waits for a cluster that does not answer, or has no leader      | SOURCE_AWAY, DESTINATION_AWAY
     6   | it was reported that an open transaction holds it back             | WAITING_FOR_TRANSACTION
     7   | it paused for anything else                                        | PAUSED_BY_ITSELF
     8   | it has reported nothing for `patience`: while it copies            | SOURCE_AWAY
         | while it begins                                                    | STALL
         | before `patience` is over                                          | none: nothing is known yet
     9   | records waited at its last report, which is older than `silence`   | STOP
    10   | nothing can be read, and nobody knows whether: while a quota holds | THROTTLED
         | it back                                                            |
         | for `patience`                                                     | SOURCE_AWAY
         | before `patience` is over                                          | none: nothing is known now
         | all of it is hidden by a transaction for `stall`                   | WAITING_FOR_TRANSACTION
    11   | its position stays for `stall` though something late can be read   | THROTTLED, else STALL
    12   | its position went back and is not again where it was               | REWIND
    13   | nothing is late                                                    | OK
    14   | what waits becomes less, and chance does not explain that          | CATCHING_UP with an ETA
    15   | a quota holds it back                                              | THROTTLED
    16   | it is late for less than `patience`, and what waits becomes less   | CATCHING_UP without an ETA
    17   | otherwise                                                          | WARN

A lag of any size that dips once is no OK (rules 13, 14); neither is a position that moves (17). A topic in
which nothing happens is OK for ever: lanes with nothing new say nothing (9 asks whether records waited). A
small lag is OK while it is young (13).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mirror.model.datastreams.lanes import PauseCause
from mirror.model.movement.history import SILENCE_SECONDS, LaneHistory, Waypoint
from mirror.model.movement.loss import (
    SLOPE_SECONDS,
    backlog_share,
    is_long_enough,
    loss_as_it_moves,
    seconds_to_loss,
)
from mirror.wording import counted, duration_text
from monitor.movement.catch_up import approach, eta_seconds
from monitor.movement.states import Judgement, LaneActivity, LaneFacts, MovementState

_S = MovementState
_MOVING: Final = frozenset({_S.CATCHING_UP, _S.THROTTLED, _S.WARN})
"""What waits is copied, at whatever rate."""
_BY_CAUSE: Final = {
    PauseCause.SILENT_WORKER: _S.STOP,
    PauseCause.TRUNCATED: _S.TRUNCATED,
    PauseCause.RECREATED: _S.RECREATED,
    PauseCause.SOURCE_AWAY: _S.SOURCE_AWAY,
    PauseCause.DESTINATION_AWAY: _S.DESTINATION_AWAY,
    PauseCause.OPEN_TRANSACTION: _S.WAITING_FOR_TRANSACTION,
    PauseCause.OTHER: _S.PAUSED_BY_ITSELF,
}


@dataclass(frozen=True, slots=True)
class MovementRules:
    """How long something may be so before it counts. `patience`: of what is not known; `stall`: of a position
    that stays; `silence`: of a lane of which records wait and that reports nothing, more than two of its
    reports are apart."""

    patience_seconds: float = 15.0
    stall_seconds: float = 20.0
    silence_seconds: float = SILENCE_SECONDS


DEFAULT_RULES: Final = MovementRules()


def judge_lane(
    history: LaneHistory, facts: LaneFacts, now: float, rules: MovementRules = DEFAULT_RULES
) -> Judgement:
    """`now` and all moments: monotonic seconds of the instance that has the history."""
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
    found = Judgement(found.state, found.reason, found.since, found.eta_seconds, left, hidden_ms)
    if not found.loses_data:
        return found
    return found._replace(keeps_ahead=_keeps_ahead(found, history, now), backlog_share=backlog_share(history))


def _keeps_ahead(found: Judgement, history: LaneHistory, now: float) -> bool:
    """Return whether a lane that moves copies records before the source deletes them, or was not watched for
    long enough to say. A backlog that surely shrinks is judged by how it has moved since it began to."""
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


def _by_facts(facts: LaneFacts) -> Judgement | None:
    """Rules 1 to 7."""
    if facts.by_user:
        return Judgement(_S.PAUSED_BY_USER, facts.reason, facts.since)
    if facts.activity is LaneActivity.UNCOPIED:
        return Judgement(_S.STOP, facts.reason, facts.since)
    if facts.activity is LaneActivity.PAUSED:
        return Judgement(_BY_CAUSE[facts.cause], facts.reason, facts.since)
    return None


def _by_silence(history: LaneHistory, facts: LaneFacts, now: float, rules: MovementRules) -> Judgement | None:
    """Rules 8 and 9."""
    newest = history.newest
    if newest is None:
        if facts.since is None or now - facts.since <= rules.patience_seconds:
            return Judgement(None, "it has reported nothing yet")
        if facts.activity is LaneActivity.BEGINNING:
            return Judgement(_S.STALL, "it does not come to copying", facts.since)
        return Judgement(_S.SOURCE_AWAY, "the source has not said where it ends", facts.since)
    silent = now - newest.at
    if newest.waiting > 0 and silent > rules.silence_seconds:
        waited = counted(newest.waiting, "record")
        reason = f"it has reported nothing for {duration_text(silent)}, and {waited} waited then"
        return Judgement(_S.STOP, reason, newest.at)
    return None


def _by_end(
    history: LaneHistory, newest: Waypoint, facts: LaneFacts, now: float, rules: MovementRules
) -> Judgement | None:
    """Rule 10."""
    unheard, held = history.unheard_since, history.held_since
    if unheard is not None:
        if facts.throttled:
            return Judgement(_S.THROTTLED, facts.throttled, unheard)
        if now - unheard > rules.patience_seconds:
            return Judgement(_S.SOURCE_AWAY, "the source does not say whether more is there", unheard)
        return Judgement(None, "the source has not said lately whether more is there")
    if held is not None and now - held > rules.stall_seconds:
        hidden = newest.end - newest.checkpoint
        reason = (
            f"an open transaction at the source hides {counted(hidden, 'record')} from {newest.checkpoint} on"
        )
        if newest.hidden_ms is not None:
            reason += f"; the first was {duration_text(newest.hidden_ms / 1000)} old at the last report"
        return Judgement(_S.WAITING_FOR_TRANSACTION, reason, held)
    return None


def _by_place(history: LaneHistory, facts: LaneFacts, now: float, rules: MovementRules) -> Judgement | None:
    """Rules 11 to 13."""
    late, stuck, rewind = history.late_since, history.stuck_since, history.rewind
    if late is not None and stuck is not None and now - stuck > rules.stall_seconds:
        if facts.throttled:
            return Judgement(_S.THROTTLED, facts.throttled, stuck)
        stays_at, waiting = history.waypoints[-1].checkpoint, counted(history.waits[-1], "record")
        return Judgement(_S.STALL, f"{waiting} can be read, and its position stays at {stays_at}", stuck)
    if rewind is not None:
        reason = f"records from {rewind.down_to} to {rewind.reached - 1} of the source are written once more"
        return Judgement(_S.REWIND, reason, rewind.at)
    return Judgement(_S.OK) if late is None else None


def _by_movement(history: LaneHistory, facts: LaneFacts, now: float, rules: MovementRules) -> Judgement:
    """Rules 14 to 17."""
    late, waiting = history.late_since, history.waits[-1]
    they_wait = counted(waiting, "record waits", "records wait")
    found = approach(history)
    eta = eta_seconds(found, history, now)
    if eta is not None:
        reason = "; ".join(
            filter(None, (f"{they_wait}, for about {duration_text(eta)} more", facts.throttled))
        )
        return Judgement(_S.CATCHING_UP, reason, late, eta)
    if facts.throttled:
        return Judgement(_S.THROTTLED, facts.throttled, late)
    is_new = late is not None and now - late <= rules.patience_seconds
    if is_new and found is not None and found.per_second > 0:
        return Judgement(_S.CATCHING_UP, they_wait, late)
    stay = "it stays" if waiting == 1 else "they do not become fewer"
    return Judgement(_S.WARN, f"{they_wait}, and {stay}", late)
