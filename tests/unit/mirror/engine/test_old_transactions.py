"""Test exactly-once lanes whose transaction the coordinator aborts due to its age, and former owners."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from structlog.typing import EventDict

from mirror.model.datastreams.lanes import LanePaused
from mirror.model.datastreams.policy import CopyPolicy, Guarantee
from mirror.replication.engine import BatchEngine
from tests.fakes.broker.faults import Code, Delay, Drop, Run
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE, INIT, ADD, END, DESCRIBE = 0, 22, 24, 26, 65
EXACTLY_ONCE = CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE)
TIMEOUT = 5.0
NewFakes = Callable[..., MirroredFakes]
LEVELS = pytest.mark.parametrize("level", [0, 2])


def copying(new_fakes: NewFakes, level: int, **options: float) -> MirroredFakes:
    """Copy 20 records exactly once with this level of the transaction protocol."""
    options = {"transaction_timeout_seconds": TIMEOUT, **options}
    fakes = new_fakes(transaction_level=level, options=options)
    fakes.copy_exactly_once()
    return fakes


@LEVELS
@pytest.mark.parametrize("late", [PRODUCE, ADD, END])
@pytest.mark.parametrize("applied", [False, True])
def test_a_lane_begins_anew_whose_transaction_was_aborted_for_its_age(
    new_fakes: NewFakes, logged: list[EventDict], level: int, late: int, applied: bool
) -> None:
    fakes = copying(new_fakes, level)
    fakes.target.faults.plant(late, Delay(TIMEOUT + 3, applied=applied))
    fakes.write("t", 20, 20)
    fakes.run(TIMEOUT + 2)
    fakes.run_to("t", 40)
    fakes.write("t", 40, 20)
    fakes.run_to("t", 60)
    fakes.check_contents("t")
    told = [one["event"] for one in logged if one["log_level"] != "debug" and one.get("partition") == "t-0"]
    assert len(told) <= 1
    assert all("transaction aborted" in one for one in told)
    waits = [one for one in logged if one["event"] in ("lane waits", "lanes wait")]
    assert all("does not respond" in one["reason"] for one in waits), "it waits only for the response"


@LEVELS
@pytest.mark.parametrize("api", [DESCRIBE, INIT])
@pytest.mark.parametrize("fault", [Code(16), Code(51), Drop(), Drop(applied=True), Delay(40, applied=True)])
def test_it_does_so_also_when_the_coordinator_is_hard_to_ask(
    new_fakes: NewFakes, level: int, api: int, fault: Code | Drop | Delay
) -> None:
    fakes = copying(new_fakes, level)
    fakes.target.faults.plant(PRODUCE, Delay(TIMEOUT + 3, applied=True))
    fakes.target.faults.plant(api, fault, times=2)
    fakes.write("t", 20, 20)
    fakes.run_to("t", 40)
    assert fakes.target.faults.is_spent
    fakes.check_contents("t")


@LEVELS
def test_an_abort_whose_markers_take_their_time_is_waited_for(new_fakes: NewFakes, level: int) -> None:
    fakes = copying(new_fakes, level)
    fakes.target.coordinator.marker_seconds = 50.0
    fakes.target.faults.plant(END, Delay(TIMEOUT + 3))
    fakes.write("t", 20, 20)
    fakes.run(TIMEOUT + 10)
    fakes.target.coordinator.marker_seconds = 0.0
    fakes.run_to("t", 40)
    fakes.check_contents("t")


@LEVELS
@pytest.mark.parametrize("late", [PRODUCE, ADD, END])
def test_somebody_who_has_taken_the_lane_meanwhile_is_not_fenced(
    new_fakes: NewFakes, level: int, late: int
) -> None:
    fakes = copying(new_fakes, level)
    fakes.target.faults.plant(late, Delay(TIMEOUT + 3))
    fakes.write("t", 20, 20)
    fakes.run(TIMEOUT + 1)
    fakes.target.coordinator.fence(
        next(n for n in fakes.target.coordinator.known if n.startswith("headrace-"))
    )
    identity = fakes.transactional().producer, fakes.transactional().epoch
    if late == ADD and level:
        return  # the newer protocol does not send it, so nothing was late
    fakes.run_until_paused("t")
    fakes.run(60)
    assert fakes.lane("t").is_fenced
    assert identity == (fakes.transactional().producer, fakes.transactional().epoch)
    assert fakes.numbers("t") == list(range(20))


@LEVELS
def test_somebody_who_takes_the_lane_while_it_is_looked_who_has_it_is_not_fenced(
    new_fakes: NewFakes, level: int
) -> None:
    fakes = copying(new_fakes, level)
    (name,) = [one for one in fakes.target.coordinator.known if one.startswith("headrace-")]
    fakes.target.faults.plant(PRODUCE, Delay(TIMEOUT + 3, applied=True))
    fakes.target.faults.plant(INIT, Run(lambda: fakes.target.coordinator.fence(name)))
    fakes.write("t", 20, 20)
    fakes.run_until(lambda: fakes.lane("t").is_fenced, "the lane pauses permanently")
    assert fakes.target.faults.is_spent
    old = [one for one in fakes.events if isinstance(one, LanePaused)][-1]
    taken = fakes.transactional().producer, fakes.transactional().epoch
    fakes.run(60)
    assert taken == (fakes.transactional().producer, fakes.transactional().epoch)
    assert "PRODUCER_FENCED" in old.reason
    assert fakes.numbers("t") == list(range(20))


@LEVELS
@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("more", [0, 20])
def test_an_owner_that_was_frozen_leaves_the_new_one_alone(
    new_fakes: NewFakes, level: int, stops: bool, more: int
) -> None:
    fakes = copying(new_fakes, level, transaction_interval_seconds=2.0)
    frozen = fakes.engine
    fakes.write("t", 20, 20)
    fakes.run_until(lambda: fakes.lane("t").ownership.is_in_transaction, "a transaction is open")
    fakes.new_engine()
    fakes.start("t", policy=EXACTLY_ONCE)
    fakes.run(2 * TIMEOUT)
    fakes.write("t", 40, more)
    fakes.run_to("t", 40 + more)
    if stops:
        fakes.stop()
    wake(fakes, frozen)
    fakes.write("t", 40 + more, 20)
    if stops:
        fakes.new_engine()
        fakes.start("t", policy=EXACTLY_ONCE)
    fakes.run_to("t", 60 + more)
    assert not fakes.pauses(fakes.lane("t").key)
    fakes.check_contents("t")


def wake(fakes: MirroredFakes, frozen: BatchEngine) -> None:
    """Step an engine that was frozen until its lane is fenced."""
    lane = next(iter(frozen.lanes.by_key.values()))
    for _ in range(2_000):
        frozen.step(0.05)
        if lane.is_fenced:
            return
    raise AssertionError(f"{lane.state} {lane.pause}")


@LEVELS
def test_a_broker_that_does_not_describe_transactions_leaves_it_at_that(
    new_fakes: NewFakes, level: int
) -> None:
    fakes = new_fakes(transaction_level=level, options={"transaction_timeout_seconds": TIMEOUT})
    fakes.target.newest_versions[DESCRIBE] = -1
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t", policy=EXACTLY_ONCE)
    fakes.run_to("t", 20)
    fakes.target.faults.plant(PRODUCE, Delay(TIMEOUT + 3, applied=True))
    fakes.write("t", 20, 20)
    fakes.run_until_paused("t")
    assert fakes.numbers("t") == list(range(20))
