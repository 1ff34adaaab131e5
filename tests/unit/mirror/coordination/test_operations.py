"""Test operations in progress, finished ones, and how long their outcomes are kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.coordination.operation import (
    OPERATION_ID,
    Operation,
    OperationKind,
    OperationState,
    answered,
    deleted,
    ended_stop,
    from_stored_operation,
    halting,
    to_stored_operation,
    waiting,
)
from mirror.coordination.outcome_store import (
    LASTS_MS,
    MOST_OUTCOMES,
    OUTCOMES_OF_GROUP,
    OutcomeStore,
    outcome_entries,
)
from mirror.coordination.stores import znodes
from mirror.coordination.stores.requests import (
    ApplyRequest,
    DamagedRequest,
    MoveRequest,
    RebalanceRequest,
    RequestQueue,
)
from mirror.errors import InvalidRequest, Unreachable
from mirror.model.datastreams.datastream import DatastreamStatus, Halt
from mirror.model.identifiers import GroupName
from tests.builders import a_datastream, a_plan, a_task, partitions
from tests.fakes.node_store import FakeSession, FakeZooKeeper, failing_write

NOW_MS = 1_700_000_000_000
ORDERS = GroupName("orders")
PLAN = a_plan(a_task("orders-0", ["t-0"], "one"), epoch=7)
REQUEST = RebalanceRequest(ORDERS, full=True, requested_by="me", reason="because", requested_ms=NOW_MS - 5)
STOPPING = a_datastream(
    status=DatastreamStatus.STOPPING,
    halt=Halt("tests", NOW_MS - 9, "me"),
    metadata={"system.creation.ms": "7"},
)


def outcome(number: int = 0, finished_ms: int = NOW_MS, group: GroupName = REQUEST.group) -> Operation:
    request = replace(REQUEST, identity=f"r-{number:010}", group=group)
    return answered(request, None, "2 tasks", PLAN, finished_ms)


def store(session: FakeSession, *operations: Operation) -> None:
    for one in operations:
        session.change_together(outcome_entries(one))


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (replace(REQUEST, identity="r-0000000003"), OperationKind.REBALANCE),
        (MoveRequest(ORDERS, partitions("t-0"), "one", "me", 5, "r-0000000003"), OperationKind.MOVE),
        (ApplyRequest(ORDERS, "p-0000000000", "me", 5, "r-0000000003"), OperationKind.APPLY),
        (DamagedRequest("r-0000000003", "no JSON", GroupName("")), OperationKind.OTHER),
    ],
)
def test_a_request_is_an_operation_until_it_is_answered_and_then_the_outcome_is(
    request_: RebalanceRequest | MoveRequest | ApplyRequest | DamagedRequest, kind: OperationKind
) -> None:
    queued = waiting(request_)
    assert (queued.kind, queued.state, queued.finished_ms) == (kind, OperationState.QUEUED, None)
    done = answered(request_, None, "x" * 2_000, PLAN, NOW_MS)
    assert (done.id, done.state, done.plan_epoch) == (queued.id, OperationState.DONE, 7)
    failed = answered(request_, InvalidRequest("not there"), "", PLAN, NOW_MS)
    assert (failed.state, failed.plan_epoch) == (OperationState.FAILED, None)
    assert (failed.sentence, failed.finished_ms) == ("not there", NOW_MS)
    for one in (queued, done, failed):
        assert from_stored_operation(to_stored_operation(one)) == one


def test_a_move_is_done_as_far_as_tasks_have_the_partitions() -> None:
    for named, state, said in (
        (["t-0"], "done", "2 tasks"),
        (["t-0", "t-8", "t-9"], "done", "2 of 3 partitions have no task and were ignored; 2 tasks"),
        (["t-9"], "failed", "no task of orders contains any of these partitions"),
    ):
        request = MoveRequest(ORDERS, partitions(*named), "one", "me", 5, "r-0000000003")
        found = answered(request, None, "2 tasks", PLAN, NOW_MS)
        assert (found.state, found.sentence) == (state, said)


def test_a_stop_runs_until_it_has_settled_and_a_deletion_that_is_faster_ends_it() -> None:
    running = halting(STOPPING)
    stopped = replace(STOPPING, status=DatastreamStatus.STOPPED)
    assert running is not None
    assert (running.state, running.requested_by, running.created_ms) == ("running", "me", NOW_MS - 9)
    done = ended_stop(STOPPING, stopped, NOW_MS)
    assert done is not None
    assert (done.id, done.state, done.finished_ms) == (running.id, "done", NOW_MS)
    assert halting(stopped) == replace(done, finished_ms=None)
    cut_off = ended_stop(STOPPING, replace(STOPPING, status=DatastreamStatus.DELETING), NOW_MS)
    assert cut_off is not None
    assert (cut_off.id, cut_off.state) == (running.id, "failed")
    assert "DELETING" in cut_off.sentence
    assert ended_stop(STOPPING, replace(STOPPING, pauses={}), NOW_MS) is None
    assert ended_stop(stopped, replace(stopped, status=DatastreamStatus.READY), NOW_MS) is None


def test_each_stop_and_each_datastream_of_a_name_has_an_id_of_its_own() -> None:
    again = replace(STOPPING, halt=Halt("tests", NOW_MS, "me"))
    other = replace(STOPPING, metadata={"system.creation.ms": "8"})
    found = [halting(one) for one in (STOPPING, again, other)]
    found += [deleted(one, NOW_MS) for one in (STOPPING, other)]
    ids = [one.id for one in found if one is not None]
    assert len(set(ids)) == 5
    assert all(OPERATION_ID.fullmatch(one) for one in ids)
    assert halting(a_datastream()) is None
    unsaid = halting(a_datastream(status=DatastreamStatus.STOPPED))
    assert unsaid is not None
    assert (unsaid.state, unsaid.created_ms, unsaid.requested_by) == ("done", None, "")


def test_the_newest_outcomes_are_kept_for_a_day() -> None:
    server = FakeZooKeeper()
    outcomes = OutcomeStore(server.session())
    store(
        server.session(),
        *(outcome(number, group=GroupName(f"g-{number}")) for number in range(MOST_OUTCOMES + 3)),
    )
    assert [one.id for one in outcomes.newest(NOW_MS)][:2] == ["r-0000001002", "r-0000001001"]
    assert len(outcomes.newest(NOW_MS)) == MOST_OUTCOMES
    outcomes.trim(NOW_MS)
    assert len(server.session().children("/operations")) == MOST_OUTCOMES
    later = NOW_MS + LASTS_MS
    store(server.session(), outcome(2_000, later - 1))
    assert [one.id for one in outcomes.newest(later)] == ["r-0000002000"]
    outcomes.trim(later)
    assert len(server.session().children("/operations")) == 1


def test_one_group_drops_no_outcome_of_another() -> None:
    server = FakeZooKeeper()
    outcomes = OutcomeStore(server.session())
    store(server.session(), outcome(0, group=GroupName("theirs")))
    store(server.session(), *(outcome(number) for number in range(1, MOST_OUTCOMES + 30)))
    kept = [f"r-{number:010}" for number in range(MOST_OUTCOMES + 29, MOST_OUTCOMES - 21, -1)]
    assert [one.id for one in outcomes.newest(NOW_MS)] == [*kept, "r-0000000000"]
    assert len(kept) == OUTCOMES_OF_GROUP
    outcomes.trim(NOW_MS)
    assert len(server.session().children("/operations")) in range(OUTCOMES_OF_GROUP, OUTCOMES_OF_GROUP + 2)
    assert outcomes.newest(NOW_MS)[-1].id == "r-0000000000"


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}", b'{"id": 5}', b'{"id": "r-0000000000"}'])
def test_an_outcome_that_is_damaged_keeps_nobody_from_the_others(data: bytes) -> None:
    server = FakeZooKeeper()
    session, outcomes = server.session(), OutcomeStore(server.session())
    store(session, outcome(1))
    session.create("/operations/o-", data, sequential=True)
    session.create("/operations/x/below", data)
    store(session, outcome(2))
    assert [one.id for one in outcomes.newest(NOW_MS)] == ["r-0000000002", "r-0000000001"]
    outcomes.trim(NOW_MS)
    assert len(session.children("/operations")) == 4


def test_what_a_newer_version_writes_can_be_read() -> None:
    document = to_stored_operation(outcome()) | {"kind": "merge", "steps": 5}
    assert from_stored_operation(document) == replace(outcome(), kind=OperationKind.OTHER)


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("number", range(3))
def test_a_request_is_taken_with_its_outcome_or_not_at_all(number: int, after_effect: bool) -> None:
    server = FakeZooKeeper()
    session, other = server.session(), server.session()
    queue, outcomes = RequestQueue(session), OutcomeStore(other)
    identity = queue.add(REQUEST)
    other.create(f"/requests/{identity}/below")
    (request,) = queue.pending()
    entries = outcome_entries(answered(request, None, "2 tasks", PLAN, NOW_MS))
    session.script = failing_write(number, after_effect=after_effect)
    try:
        assert queue.take(request, entries)
    except Unreachable:
        assert len(RequestQueue(other).waiting()) + len(outcomes.newest(NOW_MS)) == 1
        RequestQueue(other).take(request, entries)
    assert not RequestQueue(other).take(request, entries), "another leader has taken it first"
    assert RequestQueue(other).waiting() == ()
    assert [one.id for one in outcomes.newest(NOW_MS)] == [identity]


def test_what_stands_in_the_queue_under_a_name_that_it_does_not_give_has_no_outcome() -> None:
    server = FakeZooKeeper()
    session = server.session()
    session.create("/requests/..x", b"{}")
    (request,) = RequestQueue(session).pending()
    assert outcome_entries(answered(request, None, "", PLAN, NOW_MS)) == ()
    assert RequestQueue(session).take(request)
    assert RequestQueue(session).pending() == ()


def test_an_outcome_that_is_known_is_not_read_again() -> None:
    server = FakeZooKeeper()
    session = server.session()
    outcomes = OutcomeStore(session)
    store(server.session(), *(outcome(number) for number in range(50)))
    outcomes.newest(NOW_MS)
    begin = len(session.log)
    outcomes.newest(NOW_MS)
    assert [one.name for one in session.log[begin:]] == ["children"]
    assert session.children(znodes.OPERATIONS)[0] == "o-0000000000"
