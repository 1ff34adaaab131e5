"""Test the store of plans in ZooKeeper: atomic publication, and reads and writes of changed groups only."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import pytest

from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.plan_store import NO_PLAN, PlanStore, check_storable
from mirror.errors import CorruptData, InvalidRequest, VersionConflict
from mirror.model.identifiers import Epoch, GroupName, InstanceName, TaskName
from mirror.model.plan import Departure, Plan
from tests.builders import a_plan, a_task
from tests.fakes.node_store import FakeZooKeeper

FIRST = a_plan(
    a_task("a-0", ["t-0", "t-1"]), a_task("a-1", ["t-2"], "two"), a_task("b-0", ["t-0"], None), epoch=1
)
SECOND = a_plan(a_task("a-0", ["t-0", "t-1"]), a_task("a-1", ["t-2"], "two"), a_task("b-0", ["u-5"]), epoch=2)


def groups_in(server: FakeZooKeeper) -> dict[str, list[int]]:
    """Return the epochs of the stored documents by group."""
    session = server.session()
    return {
        node: [int(name.partition("-")[0]) for name in session.children(f"/plan/{node}")]
        for node in session.children("/plan")
    }


def test_before_the_first_plan_there_is_none() -> None:
    assert PlanStore(FakeZooKeeper().session(), "w").read() == NO_PLAN


def test_a_published_plan_is_read_by_everybody() -> None:
    server = FakeZooKeeper()
    published = PlanStore(server.session(), "w").publish(FIRST, NO_PLAN)
    assert PlanStore(server.session(), "other").read() == published
    assert published.plan == FIRST


def test_a_plan_without_tasks_is_a_plan() -> None:
    server = FakeZooKeeper()
    store = PlanStore(server.session(), "w")
    store.publish(a_plan(epoch=3), store.publish(FIRST, NO_PLAN))
    assert store.read().plan.epoch == 3
    assert store.read().plan.tasks == ()
    assert groups_in(server) == {}


def test_a_change_to_one_group_writes_and_reads_only_that_group() -> None:
    server = FakeZooKeeper()
    writer, reader = server.session(), server.session()
    known = PlanStore(writer, "w").publish(FIRST, NO_PLAN)
    writer.log.clear()
    PlanStore(writer, "w").publish(SECOND, known)
    assert {one.path.split("/")[2] for one in writer.log if one.name == "create"} == {"b"}
    PlanStore(reader, "r").read(known)
    (document,) = server.session().children("/plan/b")
    assert {one.path for one in reader.log if one.name == "read"} == {"/plan", f"/plan/b/{document}"}


def test_an_instance_reads_what_concerns_it() -> None:
    server = FakeZooKeeper()
    PlanStore(server.session(), "w").publish(FIRST, NO_PLAN)
    reader = server.session()
    found = PlanStore(reader, "r").read_for(InstanceName("two"))
    assert found.plan.epoch == FIRST.epoch
    assert found.plan.tasks == FIRST.of_instance(InstanceName("two"))
    assert len(reader.log) == 2
    assert found.task_counts == FIRST.task_counts, "includes other groups and instances"


def test_a_change_elsewhere_costs_an_instance_the_marker_only() -> None:
    server = FakeZooKeeper()
    writer = PlanStore(server.session(), "w")
    first = writer.publish(FIRST, NO_PLAN)
    reader = server.session()
    known = PlanStore(reader, "r").read_for(InstanceName("two"))
    reader.log.clear()
    writer.publish(SECOND, first)
    found = PlanStore(reader, "r").read_for(InstanceName("two"), known)
    assert (found.plan.epoch, found.plan.tasks) == (SECOND.epoch, known.plan.tasks)
    assert [one.path for one in reader.log] == ["/plan"]


def test_a_plan_remembers_who_left() -> None:
    server = FakeZooKeeper()
    departed = {
        InstanceName("gone"): Departure(5, frozenset({TaskName("a-0"), TaskName("b-0")})),
        InstanceName("lost"): Departure(6, frozenset({TaskName("a-1")}), is_lost=True),
    }
    PlanStore(server.session(), "w").publish(replace(FIRST, departed=departed), NO_PLAN)
    assert PlanStore(server.session(), "r").read().plan.departed == departed


def test_a_plan_that_is_known_already_costs_one_request() -> None:
    server = FakeZooKeeper()
    known = PlanStore(server.session(), "w").publish(FIRST, NO_PLAN)
    reader = server.session()
    assert PlanStore(reader, "r").read(known) is known
    assert len(reader.log) == 1


def test_what_is_no_longer_in_force_is_removed() -> None:
    server = FakeZooKeeper()
    store = PlanStore(server.session(), "w")
    second = store.publish(SECOND, store.publish(FIRST, NO_PLAN))
    assert groups_in(server) == {"a": [1, 1], "b": [2]}
    without_a = a_plan(*SECOND.of_group(SECOND.tasks[-1].group), epoch=3)
    store.publish(without_a, second)
    assert groups_in(server) == {"b": [2]}


def test_only_one_of_two_leaders_gets_its_plan_accepted() -> None:
    server = FakeZooKeeper()
    one, two = PlanStore(server.session(), "one"), PlanStore(server.session(), "two")
    base = one.publish(FIRST, NO_PLAN)
    mine = two.publish(a_plan(a_task("a-0", ["t-0"], "two"), epoch=2), base)
    with pytest.raises(VersionConflict):
        one.publish(SECOND, base)
    assert one.read(base) == mine


def test_two_first_plans_are_one_too_many() -> None:
    server = FakeZooKeeper()
    one, two = PlanStore(server.session(), "one"), PlanStore(server.session(), "two")
    mine = one.publish(FIRST, NO_PLAN)
    with pytest.raises(VersionConflict):
        two.publish(a_plan(a_task("a-0", ["t-9"])), NO_PLAN)
    assert two.read() == mine


def test_the_watch_tells_of_the_next_plan_also_when_there_is_none_yet() -> None:
    server = FakeZooKeeper()
    reader, rings = PlanStore(server.session(), "r"), list[str]()
    writer = PlanStore(server.session(), "w")
    known = reader.read(NO_PLAN, lambda: rings.append("first"))
    first = writer.publish(FIRST, NO_PLAN)
    assert "first" in rings
    known = reader.read(known, lambda: rings.append("second"))
    writer.publish(SECOND, first)
    assert rings[-1] == "second"
    assert reader.read(known).plan == SECOND


@pytest.mark.parametrize("data", [None, b"", b"\xff", b"x" * 50], ids=["gone", "empty", "text", "rubbish"])
def test_a_part_that_is_gone_or_damaged_for_good_is_left_out_alone(data: bytes | None) -> None:
    server = FakeZooKeeper()
    session = server.session()
    PlanStore(session, "w").publish(FIRST, NO_PLAN)
    for node in session.children("/plan/a"):
        session.delete_tree(f"/plan/a/{node}")
        if data is not None:
            session.create(f"/plan/a/{node}", data)
    found = PlanStore(session, "r").read()
    assert set(found.plan.tasks) == {one for one in FIRST.tasks if one.group != "a"}
    healed = PlanStore(session, "w2").publish(SECOND, found)
    assert PlanStore(session, "r").read().plan == healed.plan == SECOND


@pytest.mark.parametrize("data", [b"\xff", zlib.compress(b"{}"), zlib.compress(b'{"documents": 5}')])
def test_a_plan_whose_marker_is_damaged_is_refused_by_name(data: bytes) -> None:
    session = FakeZooKeeper().session()
    session.create("/plan", data)
    with pytest.raises(CorruptData, match="/plan"):
        PlanStore(session, "r").read()


@pytest.mark.parametrize("group", ["x" * 140_000, "\udfff" * 2_000])
def test_a_group_that_no_request_to_zookeeper_can_name_is_refused(group: str) -> None:
    with pytest.raises(InvalidRequest, match="prefix"):
        check_storable(GroupName(group))
    check_storable(GroupName("x" * 1_000))


def test_a_large_plan_is_cut_to_the_size_of_a_znode() -> None:
    server = FakeZooKeeper()
    many = a_plan(*(a_task(f"g-{n}", [f"topic-{n}-{p}" for p in range(0, 40, 2)]) for n in range(50)))
    PlanStore(server.session(), "w", chunk_bytes=100).publish(many, NO_PLAN)
    chunks = [data for path, data in server.dump().items() if path.startswith("/plan/g/0000000001-")]
    assert len(chunks) > 3
    assert all(len(chunk) <= 100 for chunk in chunks)
    assert set(PlanStore(server.session(), "r").read().plan.tasks) == set(many.tasks)


@pytest.mark.parametrize("size", [1, 200])
def test_a_group_may_have_any_name(size: int) -> None:
    server = FakeZooKeeper()
    long = "ü/." * size
    plan: Plan = a_plan(a_task(f"{long}-0", ["t-0"], group=long), a_task("..-1", ["t-0"], group=".."))
    PlanStore(server.session(), "w").publish(plan, NO_PLAN)
    found = PlanStore(server.session(), "r").read().plan
    assert set(found.tasks) == set(plan.tasks)
    assert znodes.PLAN in server.dump()


def test_nodes_that_somebody_put_below_the_plan_hold_up_no_publication() -> None:
    server = FakeZooKeeper()
    session = server.session()
    store = PlanStore(session, "w")
    first = store.publish(a_plan(a_task("a-0", ["t-0"])), NO_PLAN)
    (name,) = session.children("/plan/a")
    for path in (f"/plan/a/{name}/0000/below", "/plan/x", "/plan/y/z", "/plan/a/junk", "/plan/a/0-0/below"):
        session.create(path, b"{")
    second = store.publish(a_plan(a_task("a-0", ["t-1"]), epoch=2), first)
    assert PlanStore(session, "r").read().plan == second.plan
    third = PlanStore(session, "v").publish(a_plan(a_task("b-0", ["t-1"]), epoch=3), second)
    assert PlanStore(session, "r").read().plan == third.plan


@pytest.mark.parametrize(
    "content",
    [
        {"b-0": {"t": "0"}},
        {"a-1": {"t": "0"}},
        {"a-0": {"t": "0"}},
        {"a-x": {"t": "3"}},
        {"a-1": {"t": "0-99999999"}},
        {"a-1": "t"},
    ],
    ids=str,
)
def test_a_document_that_contradicts_others_costs_its_own_group_only(content: dict[str, Any]) -> None:
    server = FakeZooKeeper()
    session = server.session()
    tasks = [a_task("a-0", ["t-0"], "one"), a_task("a-1", ["t-1"], "two"), a_task("b-0", ["t-0"])]
    PlanStore(session, "w").publish(a_plan(*tasks), NO_PLAN)
    documents = {name: session.read(f"/plan/a/{name}").data for name in session.children("/plan/a")}
    (name,) = [name for name, data in documents.items() if b"a-1" in zlib.decompress(data)]
    session.write(f"/plan/a/{name}", node_codec.encode_chunks(content)[0], 0)
    found = PlanStore(session, "r").read().plan
    assert [one for one in found.tasks if one.group == "b"] == [a_task("b-0", ["t-0"])]
    assert {one.task for one in found.tasks} <= {"a-0", "a-1", "b-0"}


DAMAGES = [b"", b"\x00 no zlib", zlib.compress(b"[]"), zlib.compress(b'{"epoch": 1}')]


def damaged(server: FakeZooKeeper, data: bytes) -> None:
    session = server.session()
    session.write("/plan", data, session.read("/plan").version)


@pytest.mark.parametrize("data", DAMAGES)
def test_a_damaged_marker_is_replaced_under_an_epoch_that_nobody_has_obeyed(data: bytes) -> None:
    server = FakeZooKeeper()
    store = PlanStore(server.session(), "w")
    known = store.publish(SECOND, store.publish(FIRST, NO_PLAN))
    damaged(server, data)
    with pytest.raises(CorruptData):
        store.read(known)
    found, held = store.recover(known.plan, [])
    assert found.plan.tasks == SECOND.tasks
    assert found.plan.epoch > SECOND.epoch
    assert repr(data)[1:-1] in held
    healed = store.publish(replace(found.plan, epoch=Epoch(found.plan.epoch + 1)), found)
    for reader in (known, NO_PLAN):
        assert PlanStore(server.session(), "r").read(reader) == healed
    assert {epoch for epochs in groups_in(server).values() for epoch in epochs} == {healed.plan.epoch}


def test_a_leader_that_never_read_the_plan_puts_its_documents_together() -> None:
    server = FakeZooKeeper()
    store = PlanStore(server.session(), "w")
    store.publish(SECOND, store.publish(FIRST, NO_PLAN))
    session = server.session()
    session.create("/plan/b/0000000007-left-0x0", b"what broke off")
    session.create("/plan/b/999999999999999999-strange-0x0", b"")
    session.create("/plan/a/no-document", b"")
    damaged(server, b"?")
    found, _ = PlanStore(server.session(), "x").recover(NO_PLAN.plan, [Epoch(40)])
    assert found.plan.tasks == tuple(one for one in SECOND.tasks if one.group == "a")
    assert found.plan.epoch >= 40
    healed = PlanStore(server.session(), "x").publish(
        replace(found.plan, epoch=Epoch(found.plan.epoch + 1)), found
    )
    assert PlanStore(server.session(), "r").read() == healed


def test_an_old_leader_cannot_publish_over_what_was_healed() -> None:
    server = FakeZooKeeper()
    old, new = PlanStore(server.session(), "old"), PlanStore(server.session(), "new")
    known = old.publish(FIRST, NO_PLAN)
    damaged(server, b"?")
    found, _ = new.recover(NO_PLAN.plan, [])
    healed = new.publish(replace(found.plan, epoch=Epoch(found.plan.epoch + 1)), found)
    with pytest.raises(VersionConflict):
        old.publish(SECOND, known)
    assert new.read() == healed


def test_an_epoch_that_another_leader_has_healed_without_a_document_is_not_given_twice() -> None:
    server = FakeZooKeeper()
    first, second = PlanStore(server.session(), "first"), PlanStore(server.session(), "second")
    first.publish(FIRST, NO_PLAN)
    damaged(server, b"?")
    found, _ = first.recover(NO_PLAN.plan, [])
    healed = first.publish(replace(found.plan, epoch=Epoch(found.plan.epoch + 1), tasks=()), found)
    assert not any(groups_in(server).values())
    found, _ = second.recover(NO_PLAN.plan, [])
    assert found.plan.epoch >= healed.plan.epoch


@pytest.mark.parametrize("instance", ["one", "host:7/x@y", "a@", "@x0", "ü x", None])
def test_documents_say_whose_they_are(instance: str | None) -> None:
    server = FakeZooKeeper()
    store = PlanStore(server.session(), "a@b-7x1")
    tasks = a_plan(a_task("a-0", ["t-0"], instance), epoch=1)
    store.publish(tasks, NO_PLAN)
    damaged(server, b"?")
    assert store.recover(NO_PLAN.plan, [])[0].plan.tasks == tasks.tasks
