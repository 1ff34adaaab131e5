"""Readers see complete plans only, after any interruption and for any interleaving of operations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.coordination.stores.plan_store import NO_PLAN, PlanStore, StoredPlan
from mirror.errors import DamagedState, Unreachable, VersionConflict
from mirror.model.identifiers import Epoch
from mirror.model.plan import Plan, TaskPlacement
from tests.builders import a_plan, a_task
from tests.examples import examples
from tests.fakes.lockstep import Lockstep
from tests.fakes.node_store import FakeSession, FakeZooKeeper, failing_write

CHUNK_BYTES = 40
"""So small that the document of every group takes several chunks."""


@st.composite
def task_sets(draw: st.DrawFn) -> tuple[TaskPlacement, ...]:
    tasks = []
    for group in draw(st.sets(st.sampled_from(["a", "b", "c c", "d/e", "a-1"]), max_size=3)):
        for number in range(draw(st.integers(1, 3))):
            held = [f"topic-{number}-{one}" for one in draw(st.sets(st.integers(0, 30), max_size=6))]
            instance = draw(st.sampled_from(["one", "two", None]))
            tasks.append(a_task(f"{group}-{number}", held, instance, group=group))
    return tuple(tasks)


def store(session: FakeSession, writer: str) -> PlanStore:
    return PlanStore(session, writer, CHUNK_BYTES)


def same(one: Plan, two: Plan) -> bool:
    return (one.epoch, set(one.tasks), one.reason) == (two.epoch, set(two.tasks), two.reason)


def in_order(sets: Sequence[tuple[TaskPlacement, ...]]) -> list[Plan]:
    return [a_plan(*tasks, epoch=number) for number, tasks in enumerate(sets, start=1)]


def assert_tidy(server: FakeZooKeeper, stored: StoredPlan) -> None:
    """Check that only the committed documents remain."""
    session = server.session()
    folders = {
        f"{group}/{folder}"
        for group in session.children("/plan")
        for folder in session.children(f"/plan/{group}")
    }
    assert len(folders) == len(stored.documents)
    assert {name.rpartition("/")[2] for name in folders} == set(stored.documents.values())


@given(st.lists(task_sets(), min_size=1, max_size=5), st.data())
@settings(max_examples=examples(60))
def test_readers_of_any_age_arrive_at_the_plan_in_force(
    sets: list[tuple[TaskPlacement, ...]], data: st.DataObject
) -> None:
    server = FakeZooKeeper()
    writer, reader = store(server.session(), "w"), store(server.session(), "r")
    versions = [NO_PLAN]
    for plan in in_order(sets):
        versions.append(writer.publish(plan, versions[-1]))
        known = data.draw(st.sampled_from(versions))
        assert same(reader.read(known).plan, plan)
    assert_tidy(server, versions[-1])


BEFORE = a_plan(a_task("a-0", ["t-1", "t-2"]), a_task("b-0", ["t-3"]), a_task("c-0", ["t-4"]), epoch=1)
AFTER = a_plan(a_task("a-0", ["t-1"]), a_task("b-0", ["t-3"]), a_task("d-0", ["t-2"]), epoch=2)
LATER = a_plan(a_task("a-0", ["t-9"]), a_task("c-0", ["t-4"]), epoch=3)


def writes_of_a_publication() -> int:
    server = FakeZooKeeper()
    session = server.session()
    base = store(session, "w").publish(BEFORE, NO_PLAN)
    session.log.clear()
    store(session, "w").publish(AFTER, base)
    return sum(operation.is_write for operation in session.log)


@pytest.mark.parametrize(
    ("number", "after_effect"), list(itertools.product(range(writes_of_a_publication()), (False, True)))
)
@pytest.mark.parametrize("successor", ["w", "x"])
def test_interrupted_at_any_write_a_plan_is_in_force_whole_or_not_at_all(
    number: int, after_effect: bool, successor: str
) -> None:
    server = FakeZooKeeper()
    session = server.session()
    base = store(session, "w").publish(BEFORE, NO_PLAN)
    session.script = failing_write(number, after_effect=after_effect)
    with pytest.raises(Unreachable):
        store(session, "w").publish(AFTER, base)
    seen = store(server.session(), "r").read(base)
    assert same(seen.plan, BEFORE) or same(seen.plan, AFTER)
    heir = store(server.session(), successor)
    found = heir.read()
    assert same(found.plan, seen.plan)
    last = heir.publish(Plan(Epoch(found.plan.epoch + 1), LATER.tasks, 0, "later"), found)
    assert same(store(server.session(), "r").read(seen).plan, last.plan)
    assert_tidy(server, last)


bursts = st.tuples(st.sampled_from(["one", "two", "reader"]), st.integers(1, 25))
schedules = st.lists(bursts, max_size=12).map(
    lambda some: [name for name, length in some for _ in range(length)]
)


@given(schedules, task_sets(), task_sets())
@settings(max_examples=examples(150))
def test_two_leaders_and_a_reader_in_any_order(
    schedule: list[str], mine: tuple[TaskPlacement, ...], theirs: tuple[TaskPlacement, ...]
) -> None:
    server = FakeZooKeeper()
    base = store(server.session(), "w").publish(BEFORE, NO_PLAN)
    plans = {"one": a_plan(*mine, epoch=2, reason="1"), "two": a_plan(*theirs, epoch=2, reason="2")}
    lockstep = Lockstep(schedule)
    sessions = {name: server.session() for name in ("one", "two", "reader")}
    for name, session in sessions.items():
        session.script = lockstep.gate(name)
    seen: list[Plan] = []

    def read_often() -> None:
        known = NO_PLAN
        for _ in range(4):
            known = store(sessions["reader"], "r").read(known)
            seen.append(known.plan)

    outcomes = lockstep.run(
        {
            "one": lambda: store(sessions["one"], "one").publish(plans["one"], base),
            "two": lambda: store(sessions["two"], "two").publish(plans["two"], base),
            "reader": read_often,
        }
    )
    assert outcomes["reader"] is None
    losers = [name for name in plans if outcomes[name] is not None]
    assert len(losers) == 1
    assert isinstance(outcomes[losers[0]], VersionConflict)
    (winner,) = set(plans) - set(losers)
    assert all(same(plan, BEFORE) or same(plan, plans[winner]) for plan in seen)
    assert same(store(server.session(), "r").read().plan, plans[winner])


def reading_while_publishing(reads_before: int, writes_meanwhile: int) -> tuple[Plan | None, object]:
    """Read with a pause after some requests, in which a writer makes some requests."""
    server = FakeZooKeeper()
    writer, reader = server.session(), server.session()
    base = store(writer, "w").publish(BEFORE, NO_PLAN)
    lockstep = Lockstep(["reader"] * reads_before + ["one"] * writes_meanwhile + ["reader"] * 100)
    writer.script, reader.script = lockstep.gate("one"), lockstep.gate("reader")
    seen: list[Plan] = []
    outcomes = lockstep.run(
        {
            "one": lambda: store(writer, "w").publish(AFTER, base),
            "reader": lambda: seen.append(store(reader, "r").read().plan),
        }
    )
    return (seen[0] if seen else None), outcomes["reader"]


@pytest.mark.parametrize("reads_before", range(12))
def test_a_reader_never_takes_a_plan_that_is_being_replaced_for_a_damaged_one(reads_before: int) -> None:
    for writes_meanwhile in range(45):
        seen, failure = reading_while_publishing(reads_before, writes_meanwhile)
        assert failure is None
        assert seen is not None
        assert same(seen, BEFORE) or same(seen, AFTER)


@given(st.lists(task_sets(), min_size=1, max_size=6), st.data())
@settings(max_examples=examples(60))
def test_a_recovered_plan_has_an_epoch_above_all_that_were_ever_in_force(
    sets: list[tuple[TaskPlacement, ...]], data: st.DataObject
) -> None:
    """This holds although the healer has read nothing before, and no instance reports its plan."""
    server = FakeZooKeeper()
    leader, reader = store(server.session(), "w"), store(server.session(), "r")
    stored, highest = NO_PLAN, 0
    for tasks in sets:
        plan = Plan(Epoch(stored.plan.epoch + 1), tasks, 0, "next")
        stored = leader.publish(plan, stored)
        highest = max(highest, plan.epoch)
        if data.draw(st.booleans()):
            session = server.session()
            session.write("/plan", b"?", session.read("/plan").version)
            leader = store(server.session(), "x")
            found, _ = leader.recover(NO_PLAN.plan, [])
            assert found.plan.epoch >= highest or not (tasks or found.plan.tasks)
            assert set(found.plan.tasks) <= set(tasks)
            stored = leader.publish(Plan(Epoch(found.plan.epoch + 1), tasks, 0, "healed"), found)
            highest = max(highest, stored.plan.epoch)
            assert same(reader.read().plan, stored.plan)
            assert_tidy(server, stored)


@given(schedules, task_sets(), task_sets())
@settings(max_examples=examples(100))
def test_two_healers_a_late_leader_and_a_reader_in_any_order(
    schedule: list[str], mine: tuple[TaskPlacement, ...], theirs: tuple[TaskPlacement, ...]
) -> None:
    server = FakeZooKeeper()
    base = store(server.session(), "w").publish(BEFORE, NO_PLAN)
    session = server.session()
    session.write("/plan", b"?", session.read("/plan").version)
    lockstep = Lockstep(schedule)
    sessions = {name: server.session() for name in ("one", "two", "late", "reader")}
    for name, each in sessions.items():
        each.script = lockstep.gate(name)
    seen: list[Plan] = []

    def heal(name: str, tasks: tuple[TaskPlacement, ...]) -> None:
        own = store(sessions[name], name)
        found, _ = own.recover(NO_PLAN.plan, [])
        assert found.plan.epoch >= BEFORE.epoch
        own.publish(Plan(Epoch(found.plan.epoch + 1), tasks, 0, name), found)

    def read_often() -> None:
        known = base
        for _ in range(4):
            try:
                known = store(sessions["reader"], "r").read(known)
            except DamagedState:
                continue
            seen.append(known.plan)

    outcomes = lockstep.run(
        {
            "one": lambda: heal("one", mine),
            "two": lambda: heal("two", theirs),
            "late": lambda: store(sessions["late"], "late").publish(AFTER, base),
            "reader": read_often,
        }
    )
    assert outcomes["reader"] is None
    assert isinstance(outcomes["late"], VersionConflict)
    found = store(server.session(), "r").read().plan
    assert found.epoch > BEFORE.epoch
    contents = {"one": set(mine), "two": set(theirs)}
    assert set(found.tasks) == contents[found.reason]
    assert all(outcomes[name] is None for name in contents if found.reason == name)
    by_epoch: dict[Epoch, set[TaskPlacement]] = {}
    for plan in seen:  # equal epochs mean equal plans
        assert by_epoch.setdefault(plan.epoch, set(plan.tasks)) == set(plan.tasks)
