"""Test the restart of a lane at every await of its steps: it continues copying and leaks nothing."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mirror.lane.parts.ownership import identity_name
from mirror.model.datastreams.lanes import LaneStopped
from mirror.model.datastreams.policy import CopyPolicy, Guarantee
from mirror.replication import lane_runner
from mirror.replication.concurrency import RunWhile
from mirror.replication.ownership import producer_ids
from tests.fakes.broker.faults import Gate, Hold
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.broker.transactions import State

INIT, END = 22, 26
_MANY = 10
"""Minimum number of awaits; with fewer, the test covers too little."""
NewFakes = Callable[..., MirroredFakes]


class Awaits:
    """Replacement of `RunWhile` that counts the awaits of steps and restarts the lane at number `at`."""

    def __init__(self, fakes: MirroredFakes, at: int) -> None:
        self._fakes = fakes
        self._at = at
        self.count = 0

    def __call__(self, holds: Callable[[], bool], steps: Coroutine[Any, Any, None]) -> RunWhile:
        def looked_at() -> bool:
            if not is_begun:
                is_begun.append(True)
                return holds()
            self.count += 1
            if self.count == self._at:
                self._fakes.engine.runner.restart(self._fakes.lane("t"), "as the test wants it")
            return holds()

        is_begun: list[bool] = []
        return RunWhile(looked_at, steps)


def copying_behind_another(fakes: MirroredFakes, guarantee: Guarantee, **fields: Any) -> None:
    """Start a lane whose former owner was killed before it stored its latest progress."""
    policy = CopyPolicy(guarantee=guarantee)
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t", policy=policy)
    fakes.run_to("t", 20)
    fakes.write("t", 20, 20)
    fakes.run_until(lambda: fakes.target.log("t").end >= 40, "the records are written")
    assert fakes.is_unsaved(fakes.lane("t"))
    fakes.restart("t", policy=policy, **fields)


def interrupted(fakes: MirroredFakes, guarantee: Guarantee) -> None:
    """Restart a lane that has had its id for some time and holds records."""
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t", policy=CopyPolicy(guarantee=guarantee))
    fakes.run_to("t", 20)
    fakes.write("t", 20, 20)
    fakes.run_until(lambda: fakes.target.log("t").end >= 40, "the records are written")
    lane = fakes.lane("t")
    if lane.ownership.is_in_transaction:
        fakes.engine.lanes.unsaved.discard(lane)
    fakes.engine.lanes.identities.end(lane)
    fakes.engine.runner.restart(lane, "as the test wants it")


def given_back(fakes: MirroredFakes) -> bool:
    """Return whether no lane is acquiring a producer id."""
    return not any(lane.ownership.is_identifying for lane in fakes.engine.lanes.by_key.values())


@pytest.mark.parametrize("begin", [copying_behind_another, interrupted])
@pytest.mark.parametrize(
    ("guarantee", "level"),
    [(Guarantee.EFFECTIVELY_ONCE, 2), (Guarantee.EXACTLY_ONCE, 0), (Guarantee.EXACTLY_ONCE, 2)],
)
def test_a_lane_may_restart_at_any_await_of_its_steps(
    new_fakes: NewFakes,
    monkeypatch: pytest.MonkeyPatch,
    guarantee: Guarantee,
    level: int,
    begin: Callable[[MirroredFakes, Guarantee], None],
) -> None:
    for most in ("_AT_ONCE", "_COMPARISONS"):  # a leaked slot blocks the next attempt
        monkeypatch.setattr(producer_ids, most, 1)
    at, is_over = 0, False
    while not is_over:
        at += 1
        fakes = new_fakes(transaction_level=level)
        awaits = Awaits(fakes, at)
        with monkeypatch.context() as patched:
            begin(fakes, guarantee)
            patched.setattr(lane_runner, "RunWhile", awaits)
            fakes.run_to("t", 40)
            fakes.write("t", 40, 20)
            fakes.run_to("t", 60)
        is_over = awaits.count < at
        fakes.check_contents("t")
        fakes.run(0.1)
        assert given_back(fakes)
        fakes.stop()
        assert fakes.context.budget.used == fakes.context.live_budget.used == 0
    assert at > _MANY


def test_a_lane_that_stops_while_it_waits_for_its_turn_takes_no_producer_id(
    fakes: MirroredFakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_ids, "_AT_ONCE", 1)
    gate = Gate()
    fakes.target.faults.plant(INIT, Hold(gate))
    fakes.make_topic("t", 3)
    for number in range(3):
        fakes.write("t", 0, 20, number)
    fakes.start("t", 3)
    fakes.run_until(lambda: fakes.target.faults.is_spent, "one lane acquires its id")
    fakes.run(0.1)
    taking = {one.message.transactional_id for one in fakes.target.server.requests if one.api == INIT}
    waiting = [lane for key, lane in fakes.engine.lanes.by_key.items() if identity_name(key) not in taking]
    assert all(lane.ownership.is_identifying for lane in waiting)
    assert len(waiting) == 2
    fakes.engine.stop_lanes([waiting[0].key])
    gate.open()
    fakes.run_until(lambda: len(fakes.engine.lanes.by_key) == 2, "the lane stops")
    for key in list(fakes.engine.lanes.by_key):
        fakes.run_to("t", 20, key.partition.partition)
    known = {name for name in fakes.target.coordinator.known if name.startswith("headrace-")}
    assert known == {identity_name(key) for key in fakes.engine.lanes.by_key}
    assert given_back(fakes)


def stop_before_it_is_answered(fakes: MirroredFakes) -> None:
    """Stop the lane while its transaction is being ended, and drop the connections."""
    fakes.engine.stop_lanes([fakes.lane("t").key])
    fakes.run_until(lambda: fakes.target.faults.is_spent, "the end of its transaction is requested")
    fakes.run_until(lambda: not fakes.engine.lanes.by_key, "the lane stops")
    assert fakes.transactional().state is State.ONGOING
    for broker in (1, 2):
        fakes.target.server.drop_connections(broker)
    fakes.run(5)


def test_a_fence_comes_to_its_end_though_the_lane_stops_meanwhile(fakes: MirroredFakes) -> None:
    """An open transaction would block consumers of the destination."""
    copying_behind_another(fakes, Guarantee.EFFECTIVELY_ONCE)
    fakes.target.faults.plant(END, Hold(Gate()))
    fakes.run_until(lambda: fakes.target.faults.is_spent, "the lane fences")
    stop_before_it_is_answered(fakes)
    assert fakes.transactional().state is State.EMPTY  # the id was acquired again


@pytest.mark.parametrize("level", [0, 2])
def test_a_transaction_is_aborted_though_the_lane_stops_after_it_has_restarted(
    new_fakes: NewFakes, level: int
) -> None:
    fakes = new_fakes(transaction_level=level)
    fakes.copy_exactly_once()
    fakes.write("t", 20, 20)
    lane = fakes.lane("t")
    fakes.run_until(
        lambda: lane.ownership.is_in_transaction and not lane.queue.in_flight and fakes.is_unsaved(lane),
        "all is written",
    )
    fakes.target.faults.plant(END, Hold(Gate()))
    fakes.engine.runner.restart(lane, "as the test wants it")
    stop_before_it_is_answered(fakes)
    assert fakes.transactional().state is State.ABORTED


@pytest.mark.parametrize("foreign", [[], [900]], ids=["alone", "with another writer"])
def test_a_lane_that_finds_all_of_its_range_at_the_destination_takes_no_id_when_it_has_ended(
    fakes: MirroredFakes, foreign: list[int]
) -> None:
    """The comparison itself ends the lane, without an await in between."""
    copying_behind_another(fakes, Guarantee.EFFECTIVELY_ONCE, end_offset=40)
    for number in foreign:
        fakes.target.write("t", fakes.records(number, 1))
        fakes.write("t", 40, 20)
    lane = fakes.lane("t")
    fakes.run_until(lambda: not fakes.engine.lanes.by_key, "the lane ends")
    assert (lane.checkpoint, lane.ownership.identity, lane.ownership.has_owned) == (40, None, True)
    assert [one for one in fakes.events if isinstance(one, LaneStopped)] == [LaneStopped(lane.key, 40)]
    assert fakes.numbers("t") == [*range(40), *foreign]


def test_a_lane_that_ends_behind_what_the_comparison_finds_copies_the_remainder(fakes: MirroredFakes) -> None:
    """A single response before the comparison has everything that remains to be read."""
    copying_behind_another(fakes, Guarantee.EFFECTIVELY_ONCE, end_offset=60)
    fakes.write("t", 40, 20)
    key = fakes.lane("t").key
    fakes.run_until(lambda: not fakes.engine.lanes.by_key, "the lane ends")
    assert [one for one in fakes.events if isinstance(one, LaneStopped)] == [LaneStopped(key, 60)]
    assert fakes.numbers("t") == list(range(60))
