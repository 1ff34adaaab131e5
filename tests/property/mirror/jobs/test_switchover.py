"""A switch-over that is killed at any moment, and run again, has the same end."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import HeadraceError, IllegalTransition, Refused, TimedOut, VersionConflict
from mirror.jobs.dr.driver import Driver
from mirror.jobs.dr.operation import (
    STEPS,
    Denial,
    Kind,
    PairState,
    Step,
    Switchover,
    begin,
    has_reached,
    read_state,
    write_state,
)
from tests.fakes.clock import ManualClock

APP, ADMIN = Denial(topic="t", principal="User:app"), Denial(topic="t", principal="User:admin")
LOST, BROKEN = TimedOut("no response"), Refused("refused")


class Killed(BaseException):
    """The process ended."""


@dataclass
class World:
    """Two clusters and the stored state. `kills`: number of calls after which the process is killed, before
    (even) or after (odd) the effect of the call. `fails`: errors of acts by step, raised after the effect.
    `saves_left`: number of writes before the coordination store is down; None if it is not."""

    denials: dict[str, set[Denial]] = field(default_factory=lambda: {"east": set(), "west": set()})
    running: set[str] = field(default_factory=lambda: {"orders"})
    known: set[str] = field(default_factory=lambda: {"orders"})
    groups_moved: bool = False
    stored: bytes = b""
    kills: list[int] = field(default_factory=list)
    fails: dict[Step, list[HeadraceError]] = field(default_factory=dict)
    saves_left: int | None = None

    def effect(self) -> None:
        if not self.kills:
            return
        self.kills[0] -= 1
        if self.kills[0] < 0:
            self.kills.pop(0)
            raise Killed

    # Acts

    def intend(self, state: PairState, operation: Switchover) -> Switchover:
        if operation.step is Step.FENCED:
            new = {APP, ADMIN} - self.denials[operation.origin]
            return operation.with_(fence=tuple(dict.fromkeys([*operation.fence, *sorted(new, key=str)])))
        return operation

    def perform(self, state: PairState, operation: Switchover) -> Switchover:
        self.effect()
        stored = read_state(self.stored).operation
        assert stored is not None
        assert has_reached(stored, operation.step), "the intent is stored before the act"
        forward, back = state.datastreams["orders"], state.next_names["orders"]
        match operation.step:
            case Step.FENCED:
                self.denials[operation.origin] |= set(operation.fence)
            case Step.GROUPS_MOVED:
                self.groups_moved = True
            case Step.STOPPED:
                self.running.discard(forward)
            case Step.REVERSED:
                assert forward not in self.running
                self.known.discard(forward)
                self.known.add(back)
                self.running.add(back)
            case Step.OPEN:
                self.denials[operation.target] -= set(state.fences)
        if operation.step in STEPS[Kind.SWITCHOVER][2:]:
            assert {APP, ADMIN} <= self.denials[operation.origin], "no act without the fence"
        self.effect()
        if errors := self.fails.get(operation.step):
            raise errors.pop(0)
        return operation

    def undo(self, state: PairState, operation: Switchover, step: Step) -> None:
        self.effect()
        forward, back = state.datastreams["orders"], state.next_names["orders"]
        match step:
            case Step.FENCED:
                self.denials[operation.origin] -= set(operation.fence)
            case Step.STOPPED:
                self.running.add(forward)
            case Step.REVERSED:
                self.known.discard(back)
                self.running.discard(back)
                self.known.add(forward)
        self.effect()

    # Store

    def save(self, state: PairState, *, everywhere: bool) -> PairState:
        self.effect()
        if self.saves_left == 0:
            raise LOST
        self.saves_left = None if self.saves_left is None else self.saves_left - 1
        if state.version != read_state(self.stored).version:
            raise VersionConflict("another operator")
        state = state.with_(version=state.version + 1)
        self.stored = write_state(state)
        self.effect()
        return read_state(self.stored)

    def go(self, target: str = "west") -> PairState:
        """Run until the process is not killed."""
        while True:
            state = begin(read_state(self.stored), target, "id", 0, "me")
            try:
                return Driver(self, self, ManualClock(), lambda _error, _undo: True, lambda _: None).run(
                    state
                )
            except Killed:
                present = read_state(self.stored)
                if present.history and present.operation is None:  # killed after the last write
                    return present

    @property
    def end(self) -> object:
        state = read_state(self.stored)
        outcome = [(past.target, past.failure) for past in state.history]
        return self.denials, self.running, self.known, state.active, state.fences, state.generation, outcome


def driver_of(world: World) -> Driver:
    """Return a driver that repeats acts without end."""
    return Driver(world, world, ManualClock(), lambda _error, _undo: True, lambda _: None)


def fresh(*kills: int, **fields: object) -> World:
    world = World(kills=list(kills), **fields)  # type: ignore[arg-type]
    world.stored = write_state(PairState(name="p", active="east", datastreams={"orders": "orders"}))
    return world


def test_roles_are_exchanged_and_exchanged_back() -> None:
    world = fresh()
    there = world.go("west")
    assert (there.active, there.operation, world.running) == ("west", None, {"orders-dr1"})
    assert world.denials == {"east": {APP, ADMIN}, "west": set()}
    back = world.go("east")
    assert (back.active, back.datastreams) == ("east", {"orders": "orders-dr2"})
    assert world.denials == {"east": set(), "west": {APP, ADMIN}}
    assert world.known == world.running == {"orders-dr2"}


@given(st.lists(st.integers(0, 40), max_size=6), st.sampled_from([None, *STEPS[Kind.SWITCHOVER]]))
def test_a_killed_switchover_ends_as_one_that_was_not(kills: list[int], unlucky: Step | None) -> None:
    worlds = []
    for planned in ([], kills):
        errors: list[HeadraceError] = [LOST, LOST]
        worlds.append(fresh(*planned, fails={unlucky: errors} if unlucky else {}))
        worlds[-1].go()
    assert worlds[0].end == worlds[1].end
    assert worlds[0].running == {"orders-dr1"}


@given(st.lists(st.integers(0, 40), max_size=6), st.sampled_from(STEPS[Kind.SWITCHOVER][:-1]), st.booleans())
def test_a_refused_act_restores_everything(kills: list[int], step: Step, has_own_denial: bool) -> None:
    world = fresh(*kills, fails={step: [BROKEN] * 10})
    if has_own_denial:
        world.denials["east"].add(ADMIN)
    before = (set(world.denials["east"]), set(world.running), set(world.known))
    state = world.go()
    assert (world.denials["east"], world.running, world.known) == before
    assert (state.active, state.operation) == ("east", None)
    assert "refused" in state.history[-1].failure


@given(st.integers(0, 9), st.sampled_from([None, *STEPS[Kind.SWITCHOVER][:-1]]))
def test_an_operation_continues_when_the_store_is_back(saves: int, step: Step | None) -> None:
    worlds = [fresh(fails={step: [BROKEN] * 10} if step else {}) for _ in range(2)]
    worlds[0].go()
    world = worlds[1]
    world.saves_left = saves
    state = begin(read_state(world.stored), "west", "id", 0, "me")
    try:
        Driver(world, world, ManualClock(), lambda _error, _undo: False, lambda _: None).run(state)
    except TimedOut:
        world.saves_left = None
        if read_state(world.stored).operation is not None or saves == 0:
            world.go()
    assert world.end == worlds[0].end


def test_an_error_after_the_point_of_no_return_is_not_undone() -> None:
    world = fresh(fails={Step.OPEN: [BROKEN]})
    with pytest.raises(Refused):
        world.go()
    with pytest.raises(IllegalTransition):
        begin(read_state(world.stored), "east", "id", 0, "")
    assert world.go().active == "west"


def test_the_second_of_two_operators_stops() -> None:
    world = fresh()
    stale = begin(read_state(world.stored), "west", "id", 0, "")
    world.go()
    with pytest.raises(VersionConflict):
        driver_of(world).run(stale)
    assert world.running == {"orders-dr1"}


def test_the_active_cluster_cannot_be_the_target() -> None:
    with pytest.raises(IllegalTransition):
        fresh().go("east")
