"""Test the queue of requests to the leader, and the log of placement changes with their reasons."""

from __future__ import annotations

import re
import zlib
from dataclasses import replace
from random import Random

import pytest

from mirror.coordination.operation import OperationState
from mirror.coordination.outcome_store import OutcomeStore, superseded_by
from mirror.coordination.plan_reasons import move_reasons
from mirror.coordination.stores import node_codec
from mirror.coordination.stores.events import (
    KEPT,
    KEPT_OF_GROUP,
    MOST_KEPT,
    MOVES_SHOWN,
    EventLog,
    command_event,
    plan_events,
)
from mirror.coordination.stores.requests import (
    MOST_OF_GROUP,
    MOST_PENDING,
    DamagedRequest,
    RebalanceRequest,
    RequestQueue,
)
from mirror.errors import Busy
from mirror.instance.event_publisher import publish_losses
from mirror.model.identifiers import DatastreamName, Epoch, GroupName, InstanceName, TaskName
from mirror.model.metrics import ChangeKind, PlacementEvent, WorkerLoss
from mirror.model.plan import Departure, GroupPlan, moves_between
from mirror.model.topics import TopicPartition
from tests.builders import a_plan, a_task, an_instance
from tests.fakes.node_store import FakeZooKeeper, Operation

LEADER = InstanceName("one")


def a_request(reason: str = "because") -> RebalanceRequest:
    return RebalanceRequest(GroupName("orders"), full=False, requested_by="me", reason=reason, requested_ms=1)


def test_requests_are_taken_in_the_order_they_came() -> None:
    server = FakeZooKeeper()
    queue, leader = RequestQueue(server.session()), RequestQueue(server.session())
    identities = [queue.add(a_request(reason)) for reason in ("a", "b", "c")]
    pending = leader.pending()
    assert [(one.identity, one.reason) for one in pending] == list(zip(identities, "abc", strict=True))
    leader.take(pending[0])
    assert [one.reason for one in leader.pending()] == ["b", "c"]


def test_taking_twice_is_harmless() -> None:
    queue = RequestQueue(FakeZooKeeper().session())
    queue.add(a_request())
    (request,) = queue.pending()
    queue.take(request)
    queue.take(request)
    assert queue.pending() == ()


def test_a_request_that_another_leader_takes_meanwhile_is_left_out() -> None:
    server = FakeZooKeeper()
    queue, other, reader = RequestQueue(server.session()), server.session(), server.session()
    first = queue.add(a_request("a"))
    queue.add(a_request("b"))
    reader.script = lambda one: other.delete(f"/requests/{first}") if one.number == 1 else None
    assert [one.reason for one in RequestQueue(reader).pending()] == ["b"]


def test_the_leader_hears_of_a_request() -> None:
    server, rings = FakeZooKeeper(), list[None]()
    RequestQueue(server.session()).pending(lambda: rings.append(None))
    RequestQueue(server.session()).add(a_request())
    assert rings


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"group": 5, "full": true, "requested_by": "me", "reason": "r", "requested_ms": 1}',
        b'{"group": "orders", "full": "yes", "requested_by": "me", "reason": "r", "requested_ms": 1}',
        b'{"group": "orders", "partitions": {"t": "x"}, "host": "h", "requested_by": "m", "requested_ms": 1}',
        b'{"group": ' + b"[" * 100_000,
    ],
)
def test_a_request_that_cannot_be_read_hides_no_other(data: bytes) -> None:
    server = FakeZooKeeper()
    queue = RequestQueue(server.session())
    server.session().create("/requests/r-", data, sequential=True)
    good = queue.add(a_request())
    damaged, request = queue.pending()
    assert isinstance(damaged, DamagedRequest)
    assert damaged.problem
    assert request.identity == good
    queue.take(damaged)
    assert queue.pending() == (request,)


def test_fields_of_a_newer_version_are_left_out() -> None:
    server = FakeZooKeeper()
    queue = RequestQueue(server.session())
    document = (
        b'{"group":"orders","full":true,"requested_by":"me","reason":"r","requested_ms":1,"deadline_ms":7}'
    )
    server.session().create("/requests/r-", document, sequential=True)
    (found,) = queue.pending()
    assert found == RebalanceRequest(GroupName("orders"), True, "me", "r", 1, found.identity)


def test_a_request_with_nodes_below_is_taken_too() -> None:
    server = FakeZooKeeper()
    queue = RequestQueue(server.session())
    identity = queue.add(a_request())
    server.session().create(f"/requests/{identity}/child")
    queue.take(queue.pending()[0])
    assert queue.pending() == ()


def test_a_full_queue_refuses_and_a_leader_reads_a_part_of_it() -> None:
    server = FakeZooKeeper()
    queue = RequestQueue(server.session())
    for number in range(MOST_PENDING):
        queue.add(replace(a_request(), group=GroupName(f"g-{number}")))
    with pytest.raises(Busy):
        queue.add(a_request())
    pending = queue.pending()
    assert 0 < len(pending) < MOST_PENDING
    queue.take(pending[0])
    queue.add(a_request())


def test_of_one_group_few_requests_wait_and_the_newest_win() -> None:
    server = FakeZooKeeper()
    queue = RequestQueue(server.session())
    other = queue.add(replace(a_request(), group=GroupName("theirs")))
    identities = [queue.add(a_request(), superseded_by(a_request())) for _ in range(MOST_OF_GROUP + 3)]
    assert [one.identity for one in queue.pending()] == [other, *identities[3:]]
    ended = OutcomeStore(server.session()).newest(1)
    assert [(one.id, one.state) for one in reversed(ended)] == [
        (one, OperationState.FAILED) for one in identities[:3]
    ]


def test_a_request_that_the_leader_takes_meanwhile_gives_way_to_none() -> None:
    server = FakeZooKeeper()
    leader, session = RequestQueue(server.session()), server.session()
    queue = RequestQueue(session)
    identities = [queue.add(a_request()) for _ in range(MOST_OF_GROUP)]

    def take(operation: Operation) -> None:
        if operation.name == "change_together":
            session.script = lambda _: None
            leader.take(leader.pending()[0])

    session.script = take
    last = queue.add(a_request())
    assert [one.identity for one in queue.pending()] == [*identities[1:], last]


def an_event(key: str) -> PlacementEvent:
    return PlacementEvent(
        1, key, ChangeKind.PLAN, 1, LEADER, "", "", -1, "", "", "", "", 0.0, f"sentence {key}"
    )


def test_the_newest_publication_comes_first_and_in_its_own_order() -> None:
    log = EventLog(FakeZooKeeper().session())
    log.append((an_event("1"), an_event("1/a")))
    log.append((an_event("2"), an_event("2/a"), an_event("2/b")))
    assert [one.event_key for one in log.newest(10)] == ["2", "2/a", "2/b", "1", "1/a"]
    assert [one.event_key for one in log.newest(4)] == ["2", "2/a", "2/b", "1"]
    assert log.newest(10)[0] == an_event("2")


def test_an_event_of_a_kind_that_only_a_newer_version_knows_can_be_read() -> None:
    server = FakeZooKeeper()
    log = EventLog(server.session())
    log.append((an_event("1"),))
    (node,) = server.session().children("/events")
    document = node_codec.decode_chunks([server.session().read(f"/events/{node}").data], node)
    document["events"][0]["kind"] = "eclipse"
    server.session().write(f"/events/{node}", node_codec.encode_chunks(document)[0], 0)
    assert [one.kind for one in log.newest(10)] == [ChangeKind.OTHER]


def test_the_log_keeps_the_newest_and_no_more() -> None:
    server = FakeZooKeeper()
    log = EventLog(server.session())
    for number in range(KEPT + 5):
        log.append((an_event(f"{number}"),))
    assert len(server.session().children("/events")) == KEPT
    assert [one.event_key for one in log.newest(1)] == [f"{KEPT + 4}"]


def test_what_is_stored_with_changes_is_trimmed_now_and_then() -> None:
    server = FakeZooKeeper()
    session, log = server.session(), EventLog(server.session())
    for number in range(KEPT + 30):
        session.change_together((log.entry((an_event(f"{number}"),)),))
        log.trim_now_and_then()
    assert KEPT <= len(session.children("/events")) <= KEPT + 20
    assert [one.event_key for one in log.newest(1)] == [f"{KEPT + 29}"]


def test_a_full_log_is_trimmed_in_one_transaction_and_by_two_at_once() -> None:
    server = FakeZooKeeper()
    log, other, session = EventLog(server.session()), EventLog(server.session()), server.session()
    for number in range(KEPT + 50):
        session.change_together((log.entry((an_event(f"{number}"),)),))
    trimming = server.session()
    asked: list[str] = []
    trimming.script = lambda one: asked.append(one.path)
    EventLog(trimming).trim()
    assert asked.count("/events") == 1
    assert trimming.round_trips <= 3 + (KEPT + 50) // 100, "few reads, and one transaction"
    for number in range(50):
        session.change_together((log.entry((an_event(f"more {number}"),)),))
    late = server.session()
    late.script = lambda one: other.trim() if one.number == 1 else None
    EventLog(late).trim_now_and_then()
    assert len(session.children("/events")) == KEPT


def test_one_group_drops_no_event_of_another() -> None:
    server = FakeZooKeeper()
    log = EventLog(server.session())
    log.append((command_event(DatastreamName("theirs"), "paused", 1),))
    log.append((an_event("a plan"),))
    for number in range(KEPT + 20):
        log.append((command_event(DatastreamName("mine"), f"pause {number}", number),))
    found = log.newest(1_000)
    assert [one.datastream for one in found] == [*["mine"] * KEPT_OF_GROUP, "", "theirs"]
    assert found[0].sentence == f"pause {KEPT + 19}"


def test_many_groups_share_the_log() -> None:
    server = FakeZooKeeper()
    session, log = server.session(), EventLog(server.session())
    log.append((command_event(DatastreamName("theirs"), "paused", 1),))
    for number in range(30 * KEPT_OF_GROUP):
        event = command_event(DatastreamName(f"mine-{number % 30}"), f"{number}", number)
        session.change_together((log.entry((event,)),))
    log.trim()
    assert len(server.session().children("/events")) <= MOST_KEPT
    assert "theirs" in {one.datastream for one in log.newest(2 * MOST_KEPT)}


def test_reading_goes_on_where_an_old_entry_is_dropped_meanwhile() -> None:
    server = FakeZooKeeper()
    log, other, reader = EventLog(server.session()), server.session(), server.session()
    for key in ("1", "2"):
        log.append((an_event(key),))
    oldest = server.session().children("/events")[0]
    reader.script = lambda one: other.delete(f"/events/{oldest}") if one.number == 2 else None
    assert [one.event_key for one in EventLog(reader).newest(10)] == ["2"]


def test_many_publications_are_read_in_few_round_trips() -> None:
    """Each round trip costs the latency of one response of ZooKeeper."""
    server = FakeZooKeeper()
    log, reader = EventLog(server.session()), server.session()
    for number in range(KEPT):
        log.append((an_event(f"{number}"),))
    assert len(EventLog(reader).newest(1_000)) == KEPT
    assert reader.round_trips <= 1 + KEPT // 100


@pytest.mark.parametrize("data", [b"", b"\xff", zlib.compress(b"{}"), zlib.compress(b'{"events": [5]}')])
def test_a_damaged_publication_is_one_event_that_says_so(data: bytes) -> None:
    server = FakeZooKeeper()
    log = EventLog(server.session())
    log.append((an_event("1"),))
    server.session().create("/events/e-", data, sequential=True)
    log.append((an_event("2"),))
    newest, damaged, oldest = log.newest(10)
    assert (newest.event_key, oldest.event_key) == ("2", "1")
    assert "/events/e-" in damaged.sentence


def test_events_that_do_not_fit_are_cut_to_what_does() -> None:
    log = EventLog(FakeZooKeeper().session())
    noise = Random(1)
    many = tuple(replace(an_event(f"{n}"), sentence=noise.randbytes(2_000).hex()) for n in range(900))
    log.append(many)
    found = log.newest(1_000)
    assert found == many[: len(found)]
    assert found


def test_a_plan_tells_itself_and_each_of_its_moves_with_the_planners_reason() -> None:
    before = [a_task("g-0", ["t-0", "t-1", "t-2", "t-3"], "one"), a_task("g-1", ["t-4"], "gone")]
    after = a_plan(a_task("g-0", ["t-1", "t-3", "t-9"], "one"), a_task("g-1", ["t-0", "t-4"], "two"), epoch=7)
    why = {TopicPartition("t", 0): "task g-0 was too full"}
    group_plans = {
        GroupName("g"): GroupPlan({}, {}, 2, ("2 tasks", "by count"), why),
        GroupName("other"): GroupPlan({}, {}, 1, ("nothing that changes anything",)),
    }
    loads = {(GroupName("g"), TopicPartition("t", 0)): 12.5, (GroupName("g"), TopicPartition("t", 2)): 0.0}
    moves = moves_between(before, after.tasks)
    reasons = move_reasons(moves, group_plans, a_plan(*before), [an_instance("one"), an_instance("two")])
    events = plan_events(after, moves, group_plans, LEADER, loads, reasons)
    carried = {one.kafka_partition: one.bytes_per_second for one in events}
    assert carried == {-1: None, 0: 12.5, 2: 0.0, 4: None, 9: None}
    told = {(one.kind.value, one.kafka_partition): one.sentence for one in events}
    assert told.keys() == {("plan", -1), ("datastream", -1), *(("move", number) for number in (0, 2, 4, 9))}
    assert (told["plan", -1], told["datastream", -1]) == ("because", "2 tasks; by count")
    assert told["move", 0] == why[TopicPartition("t", 0)]
    assert "mirrored" in told["move", 2]
    assert re.search(r"\btwo\b.*\bgone\b", told["move", 4])
    assert "new" in told["move", 9]
    assert {one.topic for one in events if one.kind == "move"} == {"t"}
    assert len({one.event_key for one in events}) == len(events)
    assert {one.plan_epoch for one in events} == {7}


def test_the_loss_of_an_instance_is_one_event_with_its_time() -> None:
    before = a_plan(a_task("g-0", ["t-0", "t-1"], "gone"), a_task("g-1", ["t-2"], "left"))
    departed = {
        InstanceName("gone"): Departure(9, frozenset({TaskName("g-0")}), is_lost=True),
        InstanceName("left"): Departure(9, frozenset({TaskName("g-1")})),
    }
    tasks = a_plan(a_task("g-0", ["t-0", "t-1"], "one"), a_task("g-1", ["t-2"], "one"), epoch=7)
    after = replace(tasks, created_ms=9, departed=departed)
    moves = moves_between(before.tasks, after.tasks)
    reasons = move_reasons(moves, {}, before, [an_instance("one")])
    events = plan_events(after, moves, {}, LEADER, {}, reasons)
    (lost,) = [one for one in events if one.kind is ChangeKind.INSTANCE]
    assert (lost.time_ms, lost.plan_epoch, lost.from_instance, lost.datastream) == (9, 7, "gone", "")
    assert "2 partitions" in lost.sentence
    assert len({one.event_key for one in events}) == len(events)
    later = plan_events(replace(after, epoch=Epoch(8), created_ms=10), (), {}, LEADER, {}, {})
    assert [one.kind for one in later] == [ChangeKind.PLAN]


def test_the_loss_of_a_worker_process_is_one_event_with_its_time() -> None:
    server, published = FakeZooKeeper(), list[PlacementEvent]()
    log, loss = EventLog(server.session()), WorkerLoss(9, 3, "signal 9", 2)
    publish_losses(InstanceName("öne"), log, published.extend, [loss, loss._replace(time_ms=10)])
    first, second = published
    assert (first.kind, first.time_ms, first.datastream) == (ChangeKind.WORKER, 9, "")
    assert (first.instance, first.from_instance) == ("öne", "öne")
    assert "signal 9" in first.sentence
    assert first.event_key != second.event_key
    assert sorted(log.newest(10), key=lambda one: one.time_ms) == published


def test_a_plan_with_very_many_moves_still_fits_into_one_entry() -> None:
    server = FakeZooKeeper()
    many = a_plan(a_task("g-0", [f"topic-with-a-long-name-{n}-0" for n in range(3_000)]))
    moves = moves_between((), many.tasks)
    events = plan_events(many, moves, {}, LEADER, {}, move_reasons(moves, {}, a_plan(), []))
    assert len(events) == 1 + MOVES_SHOWN
    EventLog(server.session()).append(events)
    assert len(EventLog(server.session()).newest(10_000)) == len(events)
    assert events[1] == replace(events[1], sentence="new partition")


def test_what_is_no_publication_is_neither_shown_nor_in_the_way_of_the_next() -> None:
    server = FakeZooKeeper()
    session, log = server.session(), EventLog(server.session())
    for name in ("a/below", "e-0000000000/below", *(f"z-{number}" for number in range(KEPT + 5))):
        session.create(f"/events/{name}", b"{")
    for number in range(KEPT + 2):
        log.append((replace(an_event(str(number)), time_ms=number),))
    newest = log.newest(KEPT + 10)
    assert [one.time_ms for one in newest] == list(range(KEPT + 1, 1, -1))
