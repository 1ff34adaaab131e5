"""The life of a lane: its states, what may happen to it, and what is to be done then. Pure.

`advance(lifecycle, event)` is the whole table: the next lifecycle, and the actions that lead there, in order.
`!` raises ImpossibleEvent, `-` changes nothing, `>` adds the intent and settles, `CHECKP.` is CHECKPOINTING.

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
    SETTLING     | as the intent says, below                         | -        | -, or let go  | -
    GAVE_UP      | CHECKP. where the intent is STOP, else !          | !        | !             | !
    BROKE        | PAUSED; CHECKP. where the intent is STOP          | PAUSED   | CHECKP.       | -
    DUE          | -          | -          | -          | -          | STARTING | -             | -
    STORED       | !          | !          | !          | !          | !        | STOPPED       | -

An intent waits until nothing of the lane is outstanding, because a request still reads from its buffers. An
event that adds one ends with the action SETTLE: the runner looks at what is in hand, and SETTLING carries the
intent out. The first line that fits counts:

    in hand                                     | leads to
    --------------------------------------------|-----------------------------------------------------
    something is outstanding, or no intent      | nothing yet
    lost (as after another owner), STOP         | CHECKPOINTING, letting go
    lost, FINISH                                | STARTING, letting go
    drained in an open transaction, not RESTART | COMMIT first, which settles again
    drained, STOP or FINISH                     | CHECKPOINTING
    refused, STOP                               | CHECKPOINTING, letting go
    drained or refused, PAUSE_WHEN_DRAINED      | PAUSED, letting go
    anything, PAUSE                             | PAUSED, letting go
    anything, RESTART                           | STARTING, letting go

A stop that was asked for is never taken back, and a lasting pause is replaced by nothing but a stop. The
generation (`turn`) rises with every way into PAUSED, CHECKPOINTING and STOPPED, and with a restart: what was
begun in an earlier generation no longer counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from mirror.model.datastreams.lanes import PauseCause


@dataclass(frozen=True, slots=True)
class ProbeRule:
    """The wait doubles from `first_seconds` with every attempt, up to `longest_seconds`."""

    first_seconds: float = 1.0
    longest_seconds: float = 60.0

    def delay_ms(self, attempt: int) -> int:
        """Wait before probe number `attempt` (from 1)."""
        doubled = self.first_seconds * 2 ** min(attempt - 1, 30)
        return int(min(doubled, self.longest_seconds) * 1000)


@dataclass(frozen=True, slots=True)
class Pause:
    """Why a lane waits. `lasting`: no probe; a person or a new owner has to act. `failed_ms`: of the latest
    failure. That and the `cause` are not stored: of a stored pause it is 0, and nobody here was told of it.
    Times in epoch ms."""

    reason: str
    since_ms: int
    attempt: int
    probe_at_ms: int
    lasting: bool = False
    failed_ms: int = 0
    cause: PauseCause = PauseCause.OTHER

    def is_woken(self, since_ms: int) -> bool:
        """Whether to try again at once after an outage that began then: what has failed during the outage may
        have failed because of it, whatever the answer was."""
        return not self.lasting and self.failed_ms >= since_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether it is time to try again."""
        return not self.lasting and now_ms >= self.probe_at_ms

    def to_json(self) -> dict[str, Any]:
        """As stored in a progress record."""
        document: dict[str, Any] = {"reason": self.reason, "since_ms": self.since_ms, "attempt": self.attempt}
        return document | {"lasting": True} if self.lasting else document

    @classmethod
    def from_json(cls, document: Mapping[str, Any], now_ms: int) -> Pause:
        """Read it back; a restart is a good moment to probe."""
        return cls(str(document["reason"]), int(document["since_ms"]), int(document["attempt"]), now_ms)


def pause_again(
    former: Pause | None,
    reason: str,
    now_ms: int,
    rule: ProbeRule,
    *,
    lasting: bool = False,
    counts: bool = True,
    cause: PauseCause = PauseCause.OTHER,
) -> Pause:
    """The pause after a failure; `former` is the one whose probe has just failed, if there was one. Failures
    that do not count, those of a cluster that is away, make no later wait longer."""
    attempt = (former.attempt if former else 0) + counts
    since = former.since_ms if former else now_ms
    return Pause(reason, since, attempt, now_ms + rule.delay_ms(max(attempt, 1)), lasting, now_ms, cause)


class LaneState(StrEnum):
    """Where a lane is in its life."""

    STARTING = "starting"
    """Looking up its position, leaders and identity."""
    COPYING = "copying"
    RECOVERING = "recovering"
    """Comparing the destination's tail before it continues."""
    PAUSED = "paused"
    DRAINING = "draining"
    """Reads no more: sends what it has in hand."""
    CHECKPOINTING = "checkpointing"
    """Has nothing in hand; stops as soon as its checkpoint is durable."""
    STOPPED = "stopped"


class Intent(StrEnum):
    """What a lane is about to do, once nothing of it is outstanding."""

    PAUSE_WHEN_DRAINED = "pause when drained"
    """The source has a problem behind what is in hand."""
    PAUSE = "pause"
    """The destination refuses what is in hand."""
    RESTART = "restart"
    FINISH = "finish"
    """All is read. What the destination refuses may still pause or restart the lane."""
    STOP = "stop"
    """Somebody else wants it stopped: it ends where it stands."""


class EventKind(StrEnum):
    """What may happen to a lane."""

    RESTORED = "restored"
    """A pause was stored with its progress."""
    DISPLACED = "displaced"
    """Its stored progress is about another destination."""
    POSITIONED = "positioned"
    """Everything is known that it needs for copying."""
    HEADWAY = "headway"
    READ_ALL = "read all"
    COMPARING = "comparing"
    COMPARED = "compared"
    FAILED = "failed"
    """It cannot continue with what is in hand."""
    FAILED_AHEAD = "failed ahead"
    """It cannot continue behind what is in hand."""
    INVALIDATED = "invalidated"
    """It has to start again from its checkpoint."""
    STOP_ASKED = "stop asked"
    SETTLING = "settling"
    GAVE_UP = "gave up"
    """It has to stop, and what is in hand cannot be sent. Nothing is outstanding."""
    BROKE = "broke"
    """Its own steps for pausing fail."""
    DUE = "due"
    """It is time to try again."""
    STORED = "stored"
    """Its last checkpoint is durable, or cannot be."""


class LaneAction(StrEnum):
    """What the runner does for a lane."""

    DETACH_READER = "detach reader"
    DETACH_WRITER = "detach writer"
    SHED = "shed"
    """Let go of what has not been sent."""
    LET_GO = "let go"
    """Let go of everything in hand and go back to the checkpoint."""
    FREE = "free"
    """Forget everything in hand, whatever fails; progress is loaded again."""
    SETTLE = "settle"
    """Look at what is in hand and report SETTLING."""
    COMMIT = "commit"
    """End the open transaction; the commit reports SETTLING again."""
    START = "start"
    """Look for the position from which to copy."""
    READ_ON = "read on"
    PROBE = "probe"
    """Report DUE at the time that the pause says."""
    AWAIT_CHECKPOINT = "await checkpoint"
    """Report STORED when the checkpoint is durable."""
    MARK_DIRTY = "mark dirty"
    REPORT_PAUSED = "report paused"
    REPORT_RESUMED = "report resumed"
    REPORT_STOPPED = "report stopped"


class InHand(NamedTuple):
    """What of a lane is not at the destination yet. `outstanding`: sent, and not answered. `refused`: the
    destination refuses some of it. `uncommitted`: in an open transaction. `lost`: it can only be let go."""

    outstanding: bool = False
    drained: bool = True
    refused: bool = False
    uncommitted: bool = False
    lost: bool = False


class LifecycleEvent(NamedTuple):
    """Something that has happened. `pause`: of RESTORED, FAILED, FAILED_AHEAD and BROKE. `in_hand`: of
    SETTLING. `generation`: of the lane when that was begun which led to the event; None when it counts
    always."""

    kind: EventKind
    pause: Pause | None = None
    in_hand: InHand = InHand()
    generation: int | None = None


class Lifecycle(NamedTuple):
    """State, pending intent, reason for the pause that lasts or is coming, and generation (`turn`)."""

    state: LaneState = LaneState.STARTING
    intent: Intent | None = None
    pause: Pause | None = None
    turn: int = 0


Actions = tuple[LaneAction, ...]
Advance = tuple[Lifecycle, Actions]


class ImpossibleEvent(Exception):
    """The lane cannot be in this state when that happens."""


_S = LaneState
_A = LaneAction
_K = EventKind
NOTHING: Final[Actions] = ()
ACTIVE: Final = frozenset({_S.COPYING, _S.RECOVERING, _S.DRAINING, _S.CHECKPOINTING})
"""Neither starting nor at rest."""
_BEFORE_REST: Final = frozenset({_S.STARTING, _S.COPYING, _S.RECOVERING, _S.DRAINING})
"""What may still be paused or restarted."""
_ENDS: Final = (Intent.STOP, Intent.FINISH)
_READ_AGAIN: Final = (None, Intent.FINISH, Intent.PAUSE_WHEN_DRAINED)
"""After a comparison nothing is in hand: what had been read is read again, up to the end or the problem."""


def advance(now: Lifecycle, event: LifecycleEvent) -> Advance:
    """The lifecycle after the event, and what is to be done. Raises ImpossibleEvent."""
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
    return now._replace(state=_S.RECOVERING), (_A.DETACH_READER,)


def _compared(now: Lifecycle, event: LifecycleEvent) -> Advance:
    _expect(now, event, _S.RECOVERING)
    if now.intent in _READ_AGAIN:
        return now._replace(state=_S.COPYING, intent=None), (_A.READ_ON,)
    state = _S.DRAINING if now.intent is Intent.STOP else _S.COPYING
    return now._replace(state=state), (_A.SETTLE,)  # nothing is in hand: no answer would settle it


def _failed(now: Lifecycle, event: LifecycleEvent) -> Advance:
    if now.state is _S.PAUSED or now.state is _S.STOPPED:
        return now, NOTHING
    assert event.pause is not None, "a lane pauses with a reason"
    if _is_lasting(now.pause):
        return _pause_for_good(now)
    is_fresh = now.pause is None or not now.pause.failed_ms or now.pause.reason != event.pause.reason
    intent = Intent.PAUSE_WHEN_DRAINED if event.kind is _K.FAILED_AHEAD else Intent.PAUSE
    then = now._replace(pause=event.pause, intent=now.intent if now.intent is Intent.STOP else intent)
    report = (_A.REPORT_PAUSED,) if is_fresh else NOTHING
    return then, (_A.DETACH_READER, *report, _A.SETTLE)


def _pause_for_good(now: Lifecycle) -> Advance:
    """Whatever else happens, its reason is that of the lasting pause."""
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
        return (now._replace(turn=now.turn + 1), (_A.LET_GO,)) if hand.lost else (now, NOTHING)
    if hand.lost and intent in _ENDS:
        return _checkpoint(now, _A.LET_GO) if intent is Intent.STOP else _start_again(now)
    if hand.drained and hand.uncommitted and not hand.lost and intent is not Intent.RESTART:
        return now, (_A.COMMIT,)
    return _carry_out(now, intent, hand)


def _carry_out(now: Lifecycle, intent: Intent, hand: InHand) -> Advance:
    """Nothing is outstanding, and there is nothing to commit."""
    if intent in _ENDS:
        if hand.drained:
            return _checkpoint(now, _A.DETACH_WRITER)
        return _checkpoint(now, _A.LET_GO) if hand.refused and intent is Intent.STOP else (now, NOTHING)
    if intent is Intent.RESTART:
        return _start_again(now)
    if intent is Intent.PAUSE or hand.drained or hand.refused:
        then = Lifecycle(_S.PAUSED, None, now.pause, now.turn + 1)
        return then, (*_probe(now.pause), _A.LET_GO, _A.MARK_DIRTY)
    return now, NOTHING


def _gave_up(now: Lifecycle, event: LifecycleEvent) -> Advance:
    _expect(now, event, *_BEFORE_REST)
    if now.intent is not Intent.STOP:
        raise ImpossibleEvent(f"{event.kind} while the intent is {now.intent}")
    return _checkpoint(now, _A.LET_GO)


def _broke(now: Lifecycle, event: LifecycleEvent) -> Advance:
    if now.state is _S.STOPPED:
        return now, NOTHING
    pause = now.pause if _is_lasting(now.pause) else event.pause
    free = _A.DETACH_READER, _A.DETACH_WRITER, _A.FREE
    if now.intent is Intent.STOP:
        return _checkpoint(now._replace(pause=pause), *free)
    then = Lifecycle(_S.PAUSED, None, pause, now.turn + 1)
    return then, (*_probe(pause), *free, _A.REPORT_PAUSED)


def _due(now: Lifecycle, _event: LifecycleEvent) -> Advance:
    if now.state is not _S.PAUSED or _is_lasting(now.pause):
        return now, NOTHING
    return now._replace(state=_S.STARTING), (_A.START,)


def _stored(now: Lifecycle, event: LifecycleEvent) -> Advance:
    if now.state is _S.STOPPED:
        return now, NOTHING
    _expect(now, event, _S.CHECKPOINTING)
    return now._replace(state=_S.STOPPED, turn=now.turn + 1), (_A.REPORT_STOPPED,)


def _expect(now: Lifecycle, event: LifecycleEvent, *states: LaneState) -> None:
    if now.state not in states:
        raise ImpossibleEvent(f"{event.kind} while {now.state}")


def _is_lasting(pause: Pause | None) -> bool:
    return pause is not None and pause.lasting


def _probe(pause: Pause | None) -> Actions:
    return NOTHING if pause is None or pause.lasting else (_A.PROBE,)


def _checkpoint(now: Lifecycle, *actions: LaneAction) -> Advance:
    then = Lifecycle(_S.CHECKPOINTING, Intent.STOP, now.pause, now.turn + 1)
    return then, (_A.AWAIT_CHECKPOINT, *actions)  # where letting go fails, it still has to stop


def _start_again(now: Lifecycle) -> Advance:
    return Lifecycle(_S.STARTING, None, now.pause, now.turn + 1), (_A.LET_GO, _A.START)


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
