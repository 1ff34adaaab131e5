"""The lifecycle of a lane: states, events, and the actions that follow. Pure.

`advance(lifecycle, event)` implements this table: the next lifecycle, and the actions to take, in order. `!`
raises ImpossibleEvent, `-` changes nothing, `>` adds the intent and settles, `CHECKP.` is CHECKPOINTING.

    event        | STARTING   | COPYING    | RECOVERING | DRAINING   | PAUSED   | CHECKPOINTING | STOPPED
    -------------|------------|------------|------------|------------|----------|---------------|--------
    RESTORED     | keep pause | !          | !          | !          | !        | !             | !
    DISPLACED    | drop pause | !          | !          | !          | !        | !             | !
    POSITIONED   | COPYING    | !          | !          | !          | !        | !             | !
    HEADWAY      | -          | drop pause | -          | -          | -        | -             | -
    READ_ALL     | !          | DRAINING > | !          | >          | !        | !             | !
    COMPARING    | !          | RECOVERING | !          | RECOVERING | !        | !             | !
    COMPARED     | !          | !          | COPYING >  | !          | !        | !             | !
    FAILED       | PAUSE >    | PAUSE >    | PAUSE >    | PAUSE >    | -        | note pause >  | -
    FAILED_AHEAD | the same with the intent PAUSE_WHEN_DRAINED             | -        | note pause >  | -
    INVALIDATED  | RESTART >  | RESTART >  | RESTART >  | RESTART >  | -        | -             | -
    STOP_ASKED   | CHECKP.    | DRAINING > | DRAINING > | STOP >     | CHECKP.  | -             | -
    SETTLING     | according to the intent, below                    | -        | -, or drop    | -
    GAVE_UP      | CHECKP. if the intent is STOP, else !             | !        | !             | !
    BROKE        | PAUSED; CHECKP. if the intent is STOP             | PAUSED   | CHECKP.       | -
    DUE          | -          | -          | -          | -          | STARTING | -             | -
    STORED       | !          | !          | !          | !          | !        | STOPPED       | -

An intent waits until no batch of the lane is outstanding, because a request still reads from its buffers. An
event that adds an intent ends with the action SETTLE: the runner inspects the items, and the event SETTLING
carries out the intent. The first matching line applies:

    items                                       | leads to
    --------------------------------------------|-----------------------------------------------------
    any outstanding, or no intent               | nothing yet
    lost (as after another owner), STOP         | CHECKPOINTING, dropping them
    lost, FINISH                                | STARTING, dropping them
    drained in an open transaction, not RESTART | COMMIT first, which settles again
    drained, STOP or FINISH                     | CHECKPOINTING
    rejected, STOP                              | CHECKPOINTING, dropping them
    drained or rejected, PAUSE_WHEN_DRAINED     | PAUSED, dropping them
    any, PAUSE                                  | PAUSED, dropping them
    any, RESTART                                | STARTING, dropping them

A requested stop is never withdrawn, and only a stop replaces a lasting pause. The generation increases
with every pause, restart and stop: results of operations from an earlier generation are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from mirror.lane.parts.pause import Pause


class LaneState(StrEnum):
    """States in the lifecycle of a lane."""

    STARTING = "starting"
    """The lane determines its position, the partition leaders and its producer id."""
    COPYING = "copying"
    RECOVERING = "recovering"
    """The lane compares the end of the destination log with the source before copying."""
    PAUSED = "paused"
    DRAINING = "draining"
    """The lane no longer reads, and sends its remaining items."""
    CHECKPOINTING = "checkpointing"
    """The lane has no queued items, and stops when its checkpoint is durable."""
    STOPPED = "stopped"


class Intent(StrEnum):
    """A transition of a lane that must wait until no batch is in flight."""

    PAUSE_WHEN_DRAINED = "pause when drained"
    """The lane cannot read from the source after the items read so far."""
    PAUSE = "pause"
    """The destination has rejected an item."""
    RESTART = "restart"
    FINISH = "finish"
    """All records were read: the lane sends its batches and stops, unless a rejection intervenes."""
    STOP = "stop"
    """A stop was requested: the lane stops at its current position."""


class EventKind(StrEnum):
    """Events in the lifecycle of a lane."""

    RESTORED = "restored"
    """The stored progress of the lane contains a pause."""
    DISPLACED = "displaced"
    """The stored progress of the lane belongs to another destination."""
    POSITIONED = "positioned"
    """The position to copy from is known."""
    HEADWAY = "headway"
    READ_ALL = "read all"
    COMPARING = "comparing"
    COMPARED = "compared"
    FAILED = "failed"
    """The lane has failed, and cannot send its queued items."""
    FAILED_AHEAD = "failed ahead"
    """The lane cannot read further, but can send its queued items."""
    INVALIDATED = "invalidated"
    """The lane must restart from its checkpoint."""
    STOP_ASKED = "stop asked"
    SETTLING = "settling"
    GAVE_UP = "gave up"
    """The lane must stop without sending its queued items. No batch is in flight."""
    BROKE = "broke"
    """The lane could not be paused."""
    DUE = "due"
    """The retry of a paused lane is due."""
    STORED = "stored"
    """The last checkpoint is durable, or cannot be stored."""


class LaneAction(StrEnum):
    """An action that the lifecycle requests from the lane's runner."""

    DETACH_READER = "detach reader"
    DETACH_WRITER = "detach writer"
    SHED = "shed"
    """Drop the unsent items from the lane's queue."""
    DROP = "drop"
    LET_GO = "let go"
    """Stop writing, drop all queued items and return to the checkpoint."""
    FREE = "free"
    """Free all queued items and ignore errors, because the progress will be read again."""
    SETTLE = "settle"
    """Inspect the queued items, and report SETTLING."""
    COMMIT = "commit"
    """Commit the open transaction, and report SETTLING afterwards."""
    START = "start"
    """Determine the position to copy from."""
    READ_ON = "read on"
    PROBE = "probe"
    """Send the event DUE when the next retry is due."""
    AWAIT_CHECKPOINT = "await checkpoint"
    """Send the event STORED when the checkpoint is durable."""
    MARK_DIRTY = "mark dirty"
    REPORT_PAUSED = "report paused"
    REPORT_RESUMED = "report resumed"
    REPORT_STOPPED = "report stopped"


class InHand(NamedTuple):
    """State of a lane's unacknowledged items. `outstanding`: a sent item has no response. `refused`: the
    destination has rejected an item. `uncommitted`: an item is part of an open transaction. `lost`: items
    must be dropped."""

    outstanding: bool = False
    drained: bool = True
    refused: bool = False
    uncommitted: bool = False
    lost: bool = False


class LifecycleEvent(NamedTuple):
    """An event in the lifecycle of a lane.

    `pause`: set for RESTORED, FAILED, FAILED_AHEAD and BROKE. `in_hand`: set for SETTLING. `generation`: the
    lane's generation when the operation began; None if the event is valid in any generation.
    """

    kind: EventKind
    pause: Pause | None = None
    in_hand: InHand = InHand()
    generation: int | None = None


class Lifecycle(NamedTuple):
    """Position of a lane in its lifecycle: state, pending transition, pause, and generation."""

    state: LaneState = LaneState.STARTING
    intent: Intent | None = None
    pause: Pause | None = None
    generation: int = 0


Actions = tuple[LaneAction, ...]
Advance = tuple[Lifecycle, Actions]


class ImpossibleEvent(Exception):
    """Raised for an event that is impossible in the state of the lane."""


_S = LaneState
_A = LaneAction
_K = EventKind
NOTHING: Final[Actions] = ()
ACTIVE: Final = frozenset({_S.COPYING, _S.RECOVERING, _S.DRAINING, _S.CHECKPOINTING})
"""States of a started lane that is neither paused nor stopped."""
_BEFORE_REST: Final = frozenset({_S.STARTING, _S.COPYING, _S.RECOVERING, _S.DRAINING})
"""States in which a lane is neither paused nor stopped, so that it can be paused or restarted."""
_ENDS: Final = (Intent.STOP, Intent.FINISH)
_READ_AGAIN: Final = (None, Intent.FINISH, Intent.PAUSE_WHEN_DRAINED)
"""Intents that a comparison with the destination cancels, because it drops the items and reads them again."""


def advance(now: Lifecycle, event: LifecycleEvent) -> Advance:
    """Return the lifecycle of a lane after the event, and the actions to take. Raises ImpossibleEvent."""
    return _RULES[event.kind](now, event)


def _restored(now: Lifecycle, event: LifecycleEvent) -> Advance:
    _expect(now, event, _S.STARTING)
    return now._replace(pause=now.pause or event.pause), NOTHING


def _displaced(now: Lifecycle, event: LifecycleEvent) -> Advance:
    _expect(now, event, _S.STARTING)
    return now._replace(pause=None), NOTHING


def _positioned(now: Lifecycle, event: LifecycleEvent) -> Advance:
    _expect(now, event, _S.STARTING)
    return now._replace(state=_S.COPYING), NOTHING


def _headway(now: Lifecycle, _event: LifecycleEvent) -> Advance:
    if now.state is not _S.COPYING or now.intent is not None or now.pause is None:
        return now, NOTHING
    return now._replace(pause=None), (_A.MARK_DIRTY, _A.REPORT_RESUMED)


def _read_all(now: Lifecycle, event: LifecycleEvent) -> Advance:
    _expect(now, event, _S.COPYING, _S.DRAINING)
    intent = now.intent or Intent.FINISH
    return now._replace(state=_S.DRAINING, intent=intent), (_A.DETACH_READER, _A.SETTLE)


def _comparing(now: Lifecycle, event: LifecycleEvent) -> Advance:
    _expect(now, event, _S.COPYING, _S.DRAINING)
    return now._replace(state=_S.RECOVERING), (_A.DETACH_READER, _A.DROP)


def _compared(now: Lifecycle, event: LifecycleEvent) -> Advance:
    _expect(now, event, _S.RECOVERING)
    if now.intent in _READ_AGAIN:
        return now._replace(state=_S.COPYING, intent=None), (_A.READ_ON,)
    state = _S.DRAINING if now.intent is Intent.STOP else _S.COPYING
    return now._replace(state=state), (_A.SETTLE,)  # without items, no response would trigger the transition


def _failed(now: Lifecycle, event: LifecycleEvent) -> Advance:
    if now.state is _S.PAUSED or now.state is _S.STOPPED:
        return now, NOTHING
    assert event.pause is not None, "a lane pauses with a reason"
    if _is_lasting(now.pause):
        return _pause_for_good(now)
    is_fresh = now.pause is None or not now.pause.failed_ms or now.pause.text != event.pause.text
    intent = Intent.PAUSE_WHEN_DRAINED if event.kind is _K.FAILED_AHEAD else Intent.PAUSE
    then = now._replace(pause=event.pause, intent=now.intent if now.intent is Intent.STOP else intent)
    report = (_A.REPORT_PAUSED,) if is_fresh else NOTHING
    return then, (_A.DETACH_READER, *report, _A.SETTLE)


def _pause_for_good(now: Lifecycle) -> Advance:
    """Prepare a lasting pause. Later events do not change its reason."""
    intent = Intent.STOP if now.intent is Intent.STOP else Intent.PAUSE
    return now._replace(intent=intent), (_A.DETACH_READER, _A.SETTLE)


def _invalidated(now: Lifecycle, _event: LifecycleEvent) -> Advance:
    if now.state not in _BEFORE_REST:
        return now, NOTHING
    if _is_lasting(now.pause):
        return _pause_for_good(now)
    intent = Intent.STOP if now.intent is Intent.STOP else Intent.RESTART
    return now._replace(intent=intent), (_A.DETACH_READER, _A.SETTLE)


def _stop_asked(now: Lifecycle, _event: LifecycleEvent) -> Advance:
    if now.intent is Intent.STOP:
        return now, NOTHING
    if now.state is _S.STARTING or now.state is _S.PAUSED:
        return _checkpoint(now, _A.DETACH_READER, _A.SHED, _A.DETACH_WRITER)
    then = now._replace(state=_S.DRAINING, intent=Intent.STOP)
    return then, (_A.DETACH_READER, _A.SHED, _A.SETTLE)


def _settling(now: Lifecycle, event: LifecycleEvent) -> Advance:
    intent, hand = now.intent, event.in_hand
    if intent is None or hand.outstanding or now.state is _S.STOPPED:
        return now, NOTHING
    if now.state is _S.CHECKPOINTING:
        return (now._replace(generation=now.generation + 1), (_A.LET_GO,)) if hand.lost else (now, NOTHING)
    if hand.lost and intent in _ENDS:
        return _checkpoint(now, _A.LET_GO) if intent is Intent.STOP else _start_again(now)
    if hand.drained and hand.uncommitted and not hand.lost and intent is not Intent.RESTART:
        return now, (_A.COMMIT,)
    return _carry_out(now, intent, hand)


def _carry_out(now: Lifecycle, intent: Intent, hand: InHand) -> Advance:
    """Perform the pending transition of a lane. Requires that no batch is in flight or uncommitted."""
    if intent in _ENDS:
        if hand.drained:
            return _checkpoint(now, _A.DETACH_WRITER)
        return _checkpoint(now, _A.LET_GO) if hand.refused and intent is Intent.STOP else (now, NOTHING)
    if intent is Intent.RESTART:
        return _start_again(now)
    if intent is Intent.PAUSE or hand.drained or hand.refused:
        then = Lifecycle(_S.PAUSED, None, now.pause, now.generation + 1)
        return then, (*_probe(now.pause), _A.LET_GO, _A.MARK_DIRTY)
    return now, NOTHING


def _gave_up(now: Lifecycle, event: LifecycleEvent) -> Advance:
    _expect(now, event, *_BEFORE_REST)
    if now.intent is not Intent.STOP:
        raise ImpossibleEvent(f"{event.kind} with intent {now.intent}")
    return _checkpoint(now, _A.LET_GO)


def _broke(now: Lifecycle, event: LifecycleEvent) -> Advance:
    if now.state is _S.STOPPED:
        return now, NOTHING
    pause = now.pause if _is_lasting(now.pause) else event.pause
    free = _A.DETACH_READER, _A.DETACH_WRITER, _A.FREE
    if now.intent is Intent.STOP:
        return _checkpoint(now._replace(pause=pause), *free)
    then = Lifecycle(_S.PAUSED, None, pause, now.generation + 1)
    return then, (*_probe(pause), *free, _A.REPORT_PAUSED)


def _due(now: Lifecycle, _event: LifecycleEvent) -> Advance:
    if now.state is not _S.PAUSED or _is_lasting(now.pause):
        return now, NOTHING
    return now._replace(state=_S.STARTING), (_A.START,)


def _stored(now: Lifecycle, event: LifecycleEvent) -> Advance:
    if now.state is _S.STOPPED:
        return now, NOTHING
    _expect(now, event, _S.CHECKPOINTING)
    return now._replace(state=_S.STOPPED, generation=now.generation + 1), (_A.REPORT_STOPPED,)


def _expect(now: Lifecycle, event: LifecycleEvent, *states: LaneState) -> None:
    if now.state not in states:
        raise ImpossibleEvent(f"{event.kind} in state {now.state}")


def _is_lasting(pause: Pause | None) -> bool:
    return pause is not None and pause.lasting


def _probe(pause: Pause | None) -> Actions:
    return NOTHING if pause is None or pause.lasting else (_A.PROBE,)


def _checkpoint(now: Lifecycle, *actions: LaneAction) -> Advance:
    then = Lifecycle(_S.CHECKPOINTING, Intent.STOP, now.pause, now.generation + 1)
    return then, (_A.AWAIT_CHECKPOINT, *actions)  # first: the lane must stop even if dropping the items fails


def _start_again(now: Lifecycle) -> Advance:
    return Lifecycle(_S.STARTING, None, now.pause, now.generation + 1), (_A.LET_GO, _A.START)


_RULES: Final[dict[EventKind, Callable[[Lifecycle, LifecycleEvent], Advance]]] = {
    _K.RESTORED: _restored,
    _K.DISPLACED: _displaced,
    _K.POSITIONED: _positioned,
    _K.HEADWAY: _headway,
    _K.READ_ALL: _read_all,
    _K.COMPARING: _comparing,
    _K.COMPARED: _compared,
    _K.FAILED: _failed,
    _K.FAILED_AHEAD: _failed,
    _K.INVALIDATED: _invalidated,
    _K.STOP_ASKED: _stop_asked,
    _K.SETTLING: _settling,
    _K.GAVE_UP: _gave_up,
    _K.BROKE: _broke,
    _K.DUE: _due,
    _K.STORED: _stored,
}
