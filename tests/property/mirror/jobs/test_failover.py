"""A failover, the decision about its tail and the failback: killed at any moment, they have the same end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.errors import HeadraceError, IllegalTransition, Refused, TimedOut, VersionConflict
from mirror.jobs.dr.driver import Driver
from mirror.jobs.dr.fork import Fork, LossLimit
from mirror.jobs.dr.operation import (
    STEPS,
    Denial,
    Kind,
    PairState,
    Step,
    Switchover,
    begin,
    is_returning,
    read_state,
    write_state,
)
from mirror.model.topics import TopicPartition
from tests.examples import examples
from tests.fakes.clock import ManualClock
from tests.property.mirror.jobs.test_switchover import Killed

APP = Denial(topic="t", principal="User:app")
LOST, BROKEN = TimedOut("no response"), Refused("refused")
PLACE = TopicPartition("t", 0)
OLD = [f"old{number}" for number in range(5)]
KILLS = st.lists(st.integers(0, 25), max_size=6)


@dataclass
class Copy:
    """A datastream. `position`: next record of its source."""

    source: str
    target: str
    position: int
    is_running: bool = True


@dataclass
class World:
    """Two clusters with one log each, datastreams, and the stored state.

    `kills`: number of calls after which the process is killed, before (even) or after (odd) the effect of a
    call. `fails`: errors of acts by step, raised after the effect.
    """

    logs: dict[str, list[str]] = field(default_factory=lambda: {"east": [], "west": []})
    denials: dict[str, set[Denial]] = field(default_factory=lambda: {"east": set(), "west": set()})
    copies: dict[str, Copy] = field(default_factory=lambda: {"orders": Copy("east", "west", 0)})
    checkpoints: dict[str, int] = field(default_factory=dict)
    replayed: dict[str, int] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    stored: bytes = b""
    kills: list[int] = field(default_factory=list)
    fails: dict[Step, list[HeadraceError]] = field(default_factory=dict)

    def effect(self) -> None:
        if not self.kills:
            return
        self.kills[0] -= 1
        if self.kills[0] < 0:
            self.kills.pop(0)
            raise Killed

    def flow(self) -> None:
        """Let all datastreams copy to the end."""
        for name, copy in self.copies.items():
            if copy.is_running and not {copy.source, copy.target} & self.away:
                self.logs[copy.target] += self.logs[copy.source][copy.position :]
                copy.position = self.checkpoints[name] = len(self.logs[copy.source])

    # Acts

    def intend(self, state: PairState, operation: Switchover) -> Switchover:
        match operation.step:
            case Step.FENCED:
                new = {APP} - self.denials[operation.origin]
                return operation.with_(fence=tuple(dict.fromkeys([*operation.fence, *new])))
            case Step.FORKED if operation.fork is None:
                return operation.with_(fork=self.fork(state, operation))
            case Step.SETTLED:
                assert operation.fork is not None
                return operation.with_(starts=operation.fork.ends)
            case Step.REVERSED if operation.kind is Kind.SWITCHOVER and not operation.starts:
                return operation.with_(starts={"t": {0: len(self.logs[operation.target])}})
        return operation

    def fork(self, state: PairState, operation: Switchover) -> Fork:
        name = state.datastreams["orders"]
        return Fork(
            identity=operation.identity,
            cluster=operation.origin,
            at_ms=0,
            copied={"t": {0: self.checkpoints.get(name, 0)}},
            ends={"t": {0: len(self.logs[operation.target])}},
        )

    def perform(self, state: PairState, operation: Switchover) -> Switchover:
        self.effect()
        stored = read_state(self.stored).operation
        assert stored is not None
        assert stored.step is operation.step, "the intent is stored before the act"
        forward, back = state.datastreams["orders"], state.next_names["orders"]
        origin, target = operation.origin, operation.target
        result = operation
        match operation.step:
            case Step.FENCED:
                self.denials[origin] |= set(operation.fence)
            case Step.FENCE_VERIFIED if operation.kind is not Kind.SWITCHOVER:
                result = operation.with_(ends={"t": {0: len(self.logs[origin])}})
            case Step.STOPPED if forward in self.copies:
                self.copies[forward].is_running = False
            case Step.REVERSED:
                self.copies.pop(forward, None)
                self.copies.setdefault(back, Copy(target, origin, operation.starts["t"][0]))
                self.flow()
            case Step.OPEN:
                self.denials[target] -= set(state.fences)
                if operation.kind is Kind.FAILOVER:
                    self.copies.pop(forward, None)
            case Step.REPLAYED | Step.TAIL_DECIDED:
                self.end_tail(operation)
        self.effect()
        if errors := self.fails.get(operation.step):
            raise errors.pop(0)
        return result

    def end_tail(self, operation: Switchover) -> None:
        """Replay the tail, each record together with the position, or require that it is decided."""
        fork, end = operation.fork, operation.ends["t"][0]
        assert fork is not None
        if operation.step is Step.TAIL_DECIDED:
            if end > fork.start(PLACE):
                raise Refused("undecided")
            return
        state = f"{fork.identity}-{fork.generation}"
        for number in range(self.replayed.get(state, fork.start(PLACE)), end):
            self.logs[operation.target].append(f"{self.logs[operation.origin][number]}'")
            self.replayed[state] = number + 1
            self.effect()

    def undo(self, state: PairState, operation: Switchover, step: Step) -> None:
        self.effect()
        forward, back = state.datastreams["orders"], state.next_names["orders"]
        match step:
            case Step.FENCED:
                self.denials[operation.origin] -= set(operation.fence)
            case Step.STOPPED:
                self.copies[forward].is_running = True
            case Step.REVERSED:
                assert operation.kind is Kind.SWITCHOVER, "a failback has no way back from here"
                self.copies.pop(back, None)
                former = Copy(operation.origin, operation.target, self.checkpoints[forward])
                self.copies.setdefault(forward, former)
        self.effect()

    # Store

    def save(self, state: PairState, *, everywhere: bool) -> PairState:
        self.effect()
        if everywhere and self.away:
            raise Refused("a cluster is away")
        if state.version != read_state(self.stored).version:
            raise VersionConflict("another operator")
        self.stored = write_state(state.with_(version=state.version + 1))
        self.effect()
        return read_state(self.stored)

    @property
    def state(self) -> PairState:
        return read_state(self.stored)

    def go(self, kind: Kind, target: str) -> PairState:
        """Run until the process is not killed."""
        driver = Driver(self, self, ManualClock(), lambda _error, _undo: True, lambda _: None)
        before = len(self.state.history)
        while len(self.state.history) == before:
            try:
                driver.run(begin(self.state, target, "id", 0, "me", kind, selection=".*"))
            except Killed:
                continue
        return self.state

    def fail_back(self) -> PairState:
        """Fail back as the command does."""
        if not is_returning(self.state):
            state = self.go(Kind.FAILBACK, "west")
            if state.history[-1].failure:
                return state
        return self.go(Kind.SWITCHOVER, "east")


def lost_world(kills: list[int], fails: dict[Step, list[HeadraceError]] | None = None) -> World:
    """Return a world in which west has five of the seven records of east, which is away."""
    world = World(kills=[])
    world.stored = write_state(PairState(name="p", active="east", datastreams={"orders": "orders"}))
    world.logs["east"] += OLD
    world.flow()
    world.away = {"east"}
    world.logs["east"] += ["tail0", "tail1"]
    world.kills, world.fails = kills, fails or {}
    return world


def disaster(kills: list[int], kind: Kind, fails: dict[Step, list[HeadraceError]] | None = None) -> World:
    """Fail over, decide about the tail and fail back, while applications write."""
    world = lost_world(kills, fails)
    world.go(Kind.FAILOVER, "west")
    assert world.state.active == "west"
    world.logs["west"] += ["new0", "new1"]
    world.away = set()
    world.flow()
    assert world.go(kind, "west").fork is not None
    world.logs["west"].append("new2")
    world.fail_back()
    return world


@settings(max_examples=examples(100))
@given(KILLS, st.sampled_from([Kind.REPLAY, Kind.SKIP]), st.sampled_from([None, *Step]))
def test_a_killed_disaster_ends_as_one_that_was_not(
    kills: list[int], kind: Kind, unlucky: Step | None
) -> None:
    world = disaster(list(kills), kind, {unlucky: [LOST, LOST]} if unlucky else {})
    replayed = ["tail0'", "tail1'"] if kind is Kind.REPLAY else []
    gained = ["new0", "new1", *replayed, "new2"]
    assert world.logs["west"] == [*OLD, *gained]
    assert world.logs["east"] == [*OLD, "tail0", "tail1", *gained]
    assert (world.state.active, world.state.fork, world.state.operation) == ("east", None, None)
    assert world.denials == {"east": set(), "west": {APP}}
    assert set(world.copies) == {world.state.datastreams["orders"]}
    kinds = [past.kind for past in world.state.history]
    assert kinds == [Kind.FAILOVER, kind, Kind.FAILBACK, Kind.SWITCHOVER]


@settings(max_examples=examples(50))
@given(KILLS, st.sampled_from(STEPS[Kind.FAILOVER][:-1]))
def test_a_refused_failover_restores_everything(kills: list[int], step: Step) -> None:
    world = lost_world(list(kills), {step: [BROKEN] * 10})
    state = world.go(Kind.FAILOVER, "west")
    assert (state.active, state.fork, state.history[-1].failure) == ("east", None, "refused")
    world.away = set()
    world.flow()
    assert world.logs["west"] == world.logs["east"], "the copy continues"


@settings(max_examples=examples(50))
@given(KILLS)
def test_an_undecided_tail_is_not_passed(kills: list[int]) -> None:
    world = lost_world(list(kills))
    world.go(Kind.FAILOVER, "west")
    world.away = set()
    state = world.fail_back()
    assert (state.history[-1].failure, state.active) == ("undecided", "west")
    assert state.fork is not None
    assert world.denials["east"] == set(), "the fence that it has created is removed"
    assert not world.copies


def test_a_record_after_the_decision_is_undecided() -> None:
    world = lost_world([])
    world.go(Kind.FAILOVER, "west")
    world.away = set()
    world.go(Kind.SKIP, "west")
    world.logs["east"].append("late")
    assert world.fail_back().history[-1].failure == "undecided"
    world.go(Kind.REPLAY, "west")
    assert Counter(world.logs["west"])["late'"] == 1
    assert world.fail_back().active == "east"


def test_only_one_operation_is_possible_at_a_time() -> None:
    world = lost_world([])
    with pytest.raises(IllegalTransition):
        world.go(Kind.REPLAY, "east")
    with pytest.raises(IllegalTransition):
        world.go(Kind.FAILOVER, "east")
    world.go(Kind.FAILOVER, "west")
    for kind, target in ((Kind.SWITCHOVER, "east"), (Kind.FAILOVER, "east")):
        with pytest.raises(IllegalTransition):
            world.go(kind, target)
    started = begin(world.state, "west", "id", 0, "", Kind.SKIP)
    with pytest.raises(IllegalTransition):
        begin(started, "west", "id", 0, "", Kind.REPLAY)


def test_a_failover_that_is_complete_cannot_be_repeated() -> None:
    world = lost_world([])
    world.go(Kind.FAILOVER, "west")
    world.away = set()
    world.go(Kind.SKIP, "west")
    assert world.fail_back().active == "east"
    with pytest.raises(IllegalTransition):
        world.fail_back()


def test_the_limit_is_stored_with_the_operation() -> None:
    limit = LossLimit(records=7)
    state = begin(lost_world([]).state, "west", "id", 0, "", Kind.FAILOVER, limit=limit)
    again = begin(read_state(write_state(state)), "west", "id", 0, "", Kind.FAILOVER, limit=LossLimit())
    assert again.operation is not None
    assert again.operation.limit == limit
