"""Test that the steps of a lane end at the await during which the lane restarts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from mirror.client.access import ClusterAccess
from mirror.client.event_loop import Promise
from mirror.errors import Unreachable
from mirror.lane.lane import Lane
from mirror.lane.lifecycle import LaneState, Lifecycle
from mirror.lane.progress import Contents
from mirror.replication.concurrency import ConcurrencyLimit, RecheckCondition
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.options import CopyingOptions
from mirror.replication.ownership.transactions import TransactionManager
from tests.builders import a_spec
from tests.fakes.clock import ManualClock

AWAITS = 8
"""Number of awaits in `Rig.steps`."""


class Rig:
    """A copying lane, and steps with awaits in every kind of place."""

    def __init__(self) -> None:
        identity = EngineIdentity("unit")
        self.bench = EngineContext(lambda _: ClusterAccess(()), CopyingOptions(), identity, ManualClock())
        self.registry = LaneRegistry(self.bench)
        self.runner = LaneRunner(
            self.bench, self.registry, partial(TransactionManager, self.bench, self.registry)
        )
        self.lane = Lane(a_spec("t-0"), 1000, ())
        self.registry.add(self.lane, 0.0)
        self.registry.unsaved.begin(self.lane, 0)
        self.lane.contents, self.lane.lifecycle = Contents.LOADED, Lifecycle(LaneState.COPYING)
        self.noted: list[str] = []
        self.held: list[str] = []
        self.slots = ConcurrencyLimit(1)
        self.doors: list[Promise[None]] = []

    def door(self) -> Promise[None]:
        self.doors.append(Promise())
        return self.doors[-1]

    @contextmanager
    def holding(self, what: str) -> Iterator[None]:
        self.held.append(what)
        try:
            yield
        finally:
            self.held.remove(what)

    async def steps(self) -> None:
        self.noted.append("begun")
        await self.door()
        self.noted.append("to get a slot")
        async with self.slots:
            self.noted.append("within the slot")
            await self.door()
            with self.holding("a buffer"):
                self.noted.append("with a buffer")
                await self.below()
            self.noted.append("without the buffer")
        try:
            self.held.append("a mark")
            await self.door()
            self.noted.append("behind the mark")
        except Unreachable:
            self.noted.append("unreachable")
            await self.door()
        finally:
            self.held.remove("a mark")
        async for number in self.numbers():
            self.noted.append(f"number {number}")
        self.noted.append("to do it to its end")
        await self.bench.loop.see_through(self.to_the_end())
        self.noted.append("done")

    async def below(self) -> None:
        with self.holding("another buffer"):
            await self.door()
            self.noted.append("below")
            await self.door()

    async def numbers(self) -> AsyncIterator[int]:
        with self.holding("a reader"):
            for number in range(2):
                await self.door()
                yield number

    async def to_the_end(self) -> None:
        await self.door()
        self.held.append("all done")

    def run(self, restart_at: int, *, fails_at: int = -1) -> list[str]:
        """Open one door of the steps after another, and restart the lane while they wait at `restart_at`.

        Return the notes of the steps before the restart.
        """
        self.runner.spawn(self.lane, self.steps())
        noted = list[str]()
        for number in range(AWAITS + 1):
            if number == restart_at:
                self.runner.restart(self.lane, "as the test wants it")
                noted = list(self.noted)
            if number < len(self.doors):
                door = self.doors[number]
                door.fail(Unreachable("no")) if number == fails_at else door.resolve(None)
            self.bench.loop.run_once(0.0)
            self.bench.loop.run_once(0.0)
        return noted


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.bench.close()


def test_steps_of_a_lane_that_does_not_restart_come_to_their_end(rig: Rig) -> None:
    rig.run(-1)
    assert (len(rig.doors), rig.noted[-1], rig.held) == (AWAITS, "done", ["all done"])


@pytest.mark.parametrize("is_failed", [False, True])
@pytest.mark.parametrize("at", range(AWAITS))
def test_steps_do_nothing_behind_the_await_at_which_the_lane_restarts(
    rig: Rig, at: int, is_failed: bool
) -> None:
    noted = rig.run(at, fails_at=at if is_failed else -1)
    is_seen_through = at == AWAITS - 1 and not is_failed
    assert (rig.noted, len(rig.doors)) == (noted, at + 1)
    assert rig.held == ["all done"] * is_seen_through
    assert (rig.slots._free, rig.lane.state, rig.registry.events) == (1, LaneState.STARTING, [])


@pytest.mark.parametrize("at", range(AWAITS))
def test_steps_that_wait_when_the_engine_is_closed_give_back_what_they_hold(rig: Rig, at: int) -> None:
    rig.runner.spawn(rig.lane, rig.steps())
    for number in range(at):
        rig.doors[number].resolve(None)
        rig.bench.loop.run_once(0.0)
        rig.bench.loop.run_once(0.0)
    noted = list(rig.noted)
    rig.bench.close()
    assert (rig.noted, rig.held, rig.slots._free) == (noted, [], 1)


def test_an_error_of_the_present_generation_is_met_by_the_steps(rig: Rig) -> None:
    rig.run(-1, fails_at=4)
    assert "unreachable" in rig.noted


def test_steps_of_a_former_generation_are_not_begun(rig: Rig) -> None:
    rig.bench.loop.spawn(rig.runner.run(rig.lane, rig.lane.generation - 1, rig.steps()))
    assert (rig.noted, rig.doors) == ([], [])


@pytest.mark.parametrize("restarts", [False, True])
def test_steps_that_restart_their_lane_end_where_they_look(rig: Rig, restarts: bool) -> None:
    async def steps() -> None:
        if restarts:
            rig.runner.restart(rig.lane, "as the test wants it")
        rig.noted.append("before")
        await RecheckCondition()
        rig.noted.append("behind")

    rig.runner.spawn(rig.lane, steps())
    assert rig.noted == (["before"] if restarts else ["before", "behind"])
