"""Every reachable lifecycle of a lane, with every event and every combination of outstanding items."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from mirror.lane.lifecycle import (
    Actions,
    EventKind,
    ImpossibleEvent,
    InHand,
    Intent,
    LaneAction,
    LaneState,
    Lifecycle,
    LifecycleEvent,
    advance,
)
from mirror.lane.parts.pause import Pause

SOURCE: Final = Path(__file__).parents[4] / "mirror/lane/lifecycle.py"
"""Source of the module, since a compiled module has no docstring."""
PAUSES: Final = (Pause("one", 0, 1, 1000), Pause("two", 0, 1, 1000), Pause("fenced", 0, 1, 0, lasting=True))
HANDS: Final = tuple(InHand(*flags) for flags in product((False, True), repeat=5))
WITH_PAUSE: Final = (EventKind.RESTORED, EventKind.FAILED, EventKind.FAILED_AHEAD, EventKind.BROKE)
READS: Final = {(LaneState.COPYING, None)}
LEGAL: Final = {
    (LaneState.STARTING, None),
    (LaneState.PAUSED, None),
    (LaneState.CHECKPOINTING, Intent.STOP),
    (LaneState.STOPPED, Intent.STOP),
    *((LaneState.COPYING, one) for one in (None, Intent.PAUSE, Intent.PAUSE_WHEN_DRAINED, Intent.RESTART)),
    *((LaneState.DRAINING, one) for one in Intent),
}
"""States that may last while items are outstanding.

A lane that starts or recovers has none, so that it carries out an intent at once, except for intents that it
takes along into RECOVERING.
"""
TAKEN_ALONG: Final = {(LaneState.RECOVERING, intent) for intent in (None, *Intent)}


STATES_OF_THE_TABLE: Final = (
    LaneState.STARTING,
    LaneState.COPYING,
    LaneState.RECOVERING,
    LaneState.DRAINING,
    LaneState.PAUSED,
    LaneState.CHECKPOINTING,
    LaneState.STOPPED,
)


class World(NamedTuple):
    """A lifecycle and the effects of its actions. `starting`: position searches that still count.

    `starting` and `reports` are capped at 2, so that a repeating lifecycle also has finitely many states.
    """

    lifecycle: Lifecycle = Lifecycle()
    reading: bool = False
    starting: int = 1
    awaiting: bool = False
    probing: bool = False
    settling: bool = False
    reports: int = 0


def events(world: World) -> Iterator[LifecycleEvent]:
    """Yield every possible event; if the runner has to inspect the items, only that."""
    if world.settling:
        idle = world.lifecycle.state in (LaneState.STARTING, LaneState.RECOVERING, LaneState.CHECKPOINTING)
        for hand in HANDS:
            if not (idle and (hand.outstanding or hand.uncommitted or not hand.drained)):
                yield LifecycleEvent(EventKind.SETTLING, in_hand=hand)
        return
    for kind in EventKind:
        if kind in WITH_PAUSE:
            yield from (LifecycleEvent(kind, pause) for pause in PAUSES)
        elif kind is EventKind.SETTLING:
            yield from (LifecycleEvent(kind, in_hand=hand) for hand in HANDS)
        else:
            yield LifecycleEvent(kind)


def follow(world: World, event: LifecycleEvent) -> tuple[World, Actions]:
    """Return the world after the event, with its generation counted from 0 again."""
    before = world.lifecycle
    after, actions = advance(before, event)
    assert after.generation >= before.generation
    is_new = after.generation > before.generation
    starting = 0 if is_new or after.state is not LaneState.STARTING else world.starting
    reading = world.reading or event.kind is EventKind.POSITIONED
    for action in actions:
        if action is LaneAction.DETACH_READER:
            reading = False
        reading = reading or action is LaneAction.READ_ON
    then = World(
        after._replace(generation=0),
        reading,
        min(starting + actions.count(LaneAction.START), 2),
        world.awaiting or LaneAction.AWAIT_CHECKPOINT in actions,
        LaneAction.PROBE in actions or (world.probing and not is_new),
        LaneAction.SETTLE in actions,
        min(world.reports + actions.count(LaneAction.REPORT_STOPPED), 2),
    )
    return then, actions


def explore() -> tuple[set[World], list[tuple[World, LifecycleEvent, World, Actions]]]:
    """Return every reachable world and every step."""
    seen = {World()}
    waiting = deque(seen)
    steps = []
    while waiting:
        world = waiting.popleft()
        for event in events(world):
            try:
                then, actions = follow(world, event)
            except ImpossibleEvent:
                continue
            steps.append((world, event, then, actions))
            if then not in seen:
                seen.add(then)
                waiting.append(then)
    return seen, steps


WORLDS, STEPS = explore()


def test_an_intent_is_pending_only_where_something_may_be_outstanding() -> None:
    found = {(one.lifecycle.state, one.lifecycle.intent) for one in WORLDS if not one.settling}
    assert found <= LEGAL | TAKEN_ALONG
    assert found >= LEGAL


def test_a_stop_is_reported_exactly_once() -> None:
    for world in WORLDS:
        assert world.reports == (world.lifecycle.state is LaneState.STOPPED), world


def test_nothing_leads_out_of_stopped() -> None:
    for world, event, then, actions in STEPS:
        if world.lifecycle.state is LaneState.STOPPED:
            assert (then, actions) == (world, ()), event


def test_a_lane_that_starts_has_exactly_one_start_under_way() -> None:
    for world in WORLDS:
        assert world.starting == (world.lifecycle.state is LaneState.STARTING), world


def test_only_a_lane_that_copies_and_intends_nothing_else_reads() -> None:
    for world in WORLDS:
        if world.reading:
            assert (world.lifecycle.state, world.lifecycle.intent) in READS, world


def test_a_lane_that_copies_and_intends_nothing_else_reads_indeed() -> None:
    for world in WORLDS:
        if (world.lifecycle.state, world.lifecycle.intent) in READS:
            assert world.reading, world


def test_a_paused_lane_tries_again_unless_its_pause_lasts() -> None:
    for world in WORLDS:
        if world.lifecycle.state is LaneState.PAUSED:
            assert world.lifecycle.pause is not None
            assert world.probing is not world.lifecycle.pause.lasting, world


def test_a_lane_that_checkpoints_is_waited_for() -> None:
    for world in WORLDS:
        if world.lifecycle.state is LaneState.CHECKPOINTING:
            assert world.awaiting, world


def test_buffers_that_a_request_reads_from_are_never_let_go() -> None:
    for world, event, _then, actions in STEPS:
        if LaneAction.LET_GO in actions:
            assert event.kind in (EventKind.SETTLING, EventKind.GAVE_UP), (world, event)
            assert not event.in_hand.outstanding


def test_a_lane_keeps_nothing_in_hand_where_it_rests_or_starts_again() -> None:
    at_rest = {LaneState.PAUSED, LaneState.STARTING, LaneState.CHECKPOINTING}
    for world, event, then, actions in STEPS:
        before, after = world.lifecycle.state, then.lifecycle.state
        if after in at_rest and before not in at_rest:
            is_free = LaneAction.LET_GO in actions or LaneAction.FREE in actions
            assert is_free or event.in_hand.drained, (world, event)


def test_a_stop_and_a_lasting_pause_are_never_taken_back() -> None:
    for world, event, then, _actions in STEPS:
        before, after = world.lifecycle, then.lifecycle
        if before.intent is Intent.STOP:
            assert after.intent is Intent.STOP, (world, event)
        if before.pause is not None and before.pause.lasting and event.kind is not EventKind.DISPLACED:
            is_over = after.state is LaneState.COPYING and event.kind is EventKind.HEADWAY
            assert after.pause == before.pause or is_over, (world, event)


@pytest.mark.parametrize("lost", [False, True])
def test_every_intent_is_carried_out_once_nothing_is_in_hand(lost: bool) -> None:
    for world in WORLDS:
        if world.lifecycle.intent is not None and world.lifecycle.state is not LaneState.STOPPED:
            after, _ = advance(world.lifecycle, LifecycleEvent(EventKind.SETTLING, in_hand=InHand(lost=lost)))
            rest = (LaneState.PAUSED, LaneState.STARTING, LaneState.CHECKPOINTING)
            assert after.state in rest, world


def test_the_table_in_the_docstring_is_what_happens() -> None:
    lines = [
        line.split("|") for line in SOURCE.read_text(encoding="utf-8").splitlines() if line.count("|") == 7
    ]
    states = [LaneState[name.strip()] for name in lines[0][1:]]
    assert states == list(STATES_OF_THE_TABLE)
    checked = 0
    for name, *cells in lines[2:]:
        kind = EventKind[name.strip()]
        for state, cell in zip(states, map(str.strip, cells), strict=True):
            for world in WORLDS:
                pause = world.lifecycle.pause
                if world.lifecycle.state is state and not world.settling and not (pause and pause.lasting):
                    check_cell(world.lifecycle, kind, cell)
                    checked += 1
    assert checked > 500


def check_cell(now: Lifecycle, kind: EventKind, cell: str) -> None:
    """Check that the event leads to the result in a cell of the table."""
    event = LifecycleEvent(kind, PAUSES[0])
    if cell == "!":
        with pytest.raises(ImpossibleEvent):
            advance(now, event)
        return
    after, actions = advance(now, event)
    if kind is EventKind.STOP_ASKED and now.intent is Intent.STOP:
        assert (after, actions) == (now, ())
        return
    is_decided = now.intent is Intent.STOP
    if cell == "-":
        assert (after, actions) == (now, ())
    elif cell.split()[0] in LaneState.__members__ and not (kind is EventKind.COMPARED and is_decided):
        assert after.state is LaneState[cell.split()[0]], (now, kind)
    elif cell == "CHECKP.":
        assert after.state is LaneState.CHECKPOINTING
    elif cell in ("PAUSE >", "RESTART >", "STOP >") and not is_decided:
        assert after.intent is Intent[cell.split()[0]], (now, kind)
    if cell.endswith(">") and not (kind is EventKind.COMPARED and after.intent is None):
        assert actions[-1] is LaneAction.SETTLE or now.intent is Intent.STOP


def test_every_event_leads_somewhere_from_somewhere() -> None:
    assert {event.kind for world, event, then, _ in STEPS if then != world} == set(EventKind)
