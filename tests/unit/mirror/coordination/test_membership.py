"""Test membership: live instances, the election of the leader, and announced lanes."""

from __future__ import annotations

import json
import sys
import threading

import pytest

from mirror.coordination.reconcile import starts
from mirror.coordination.stores import znodes
from mirror.coordination.stores.membership import Holding, LiveInstance, Membership
from mirror.coordination.stores.problems import TroubleStore
from mirror.model.identifiers import Epoch, GroupName, InstanceName
from tests.builders import a_key, a_spec, an_instance
from tests.fakes.node_store import FakeSession, FakeZooKeeper


def join(session: FakeSession, name: str) -> LiveInstance:
    return Membership(session).join(LiveInstance(InstanceName(name), 0, "host", 7, "127.0.0.1:1"))


def test_instances_come_in_order_of_arrival_and_the_first_leads() -> None:
    server = FakeZooKeeper()
    arrived = [join(server.session(), name) for name in ("b", "a", "c")]
    live = Membership(server.session()).live()
    assert list(live) == arrived
    assert [one.name for one in live] == ["b", "a", "c"]
    assert Membership(server.session()).leader(0) == arrived[0]


def test_nobody_leads_where_nobody_is() -> None:
    members = Membership(FakeZooKeeper().session())
    assert members.leader(0) is None
    assert members.live() == ()


def test_an_instance_that_leaves_leaves_nothing_although_its_session_stays() -> None:
    server = FakeZooKeeper()
    session = server.session()
    me = join(session, "a")
    Membership(session).begin_to_leave(me)
    for folder in (znodes.TROUBLES, znodes.QUOTAS, znodes.NO_TOPICS):
        TroubleStore(session).publish(folder, me.sequence, {GroupName("orders"): "a reason"})
    Membership(session).leave(me)
    assert [path for path in server.dump() if f"i-{me.sequence:010}" in path] == []


def test_many_threads_may_read_while_one_forgets_what_it_knows() -> None:
    server = FakeZooKeeper()
    joined = [join(server.session(), name) for name in "abc"]
    members, is_over = Membership(server.session()), threading.Event()

    def forget() -> None:
        while not is_over.is_set():
            members.invalidate()

    interval, forgetting = sys.getswitchinterval(), threading.Thread(target=forget)
    sys.setswitchinterval(1e-6)
    forgetting.start()
    try:
        for _ in range(300):
            assert list(members.live()) == joined
    finally:
        is_over.set()
        forgetting.join()
        sys.setswitchinterval(interval)


def test_only_the_predecessors_going_is_noticed_by_one_that_waits_to_lead() -> None:
    server = FakeZooKeeper()
    sessions = [server.session() for _ in range(4)]
    joined = [join(session, name) for session, name in zip(sessions, "abcd", strict=True)]
    rings: list[str] = []
    members = Membership(sessions[2])

    def look() -> LiveInstance | None:
        return members.leader(joined[2].sequence, lambda: rings.append("ring"))

    assert look() == joined[0]
    sessions[3].expire()
    sessions[0].expire()
    assert rings == []
    sessions[1].expire()
    assert rings == ["ring"]
    assert look() == joined[2]


def test_one_that_wants_to_go_is_live_until_it_has_left() -> None:
    server = FakeZooKeeper()
    session, observer = server.session(), Membership(server.session())
    me, rings = join(session, "a"), list[str]()
    assert [one.is_leaving for one in observer.live(lambda: rings.append("ring"))] == [False]
    for _ in range(2):
        Membership(session).begin_to_leave(me)
    assert rings == ["ring"]
    assert [one.is_leaving for one in observer.live()] == [True]
    Membership(session).leave(me)
    assert observer.live() == ()
    assert not [path for path in server.dump() if path.startswith("/leaving/")]


def test_what_an_instance_said_of_itself_is_read_once() -> None:
    server = FakeZooKeeper()
    for name in "abc":
        join(server.session(), name)
    session = server.session()
    members = Membership(session)
    members.live()
    session.log.clear()
    members.live()
    assert [one.name for one in session.log] == ["children", "children"]


def test_a_session_that_ends_takes_instance_and_holding_with_it() -> None:
    server = FakeZooKeeper()
    session, observer = server.session(), Membership(server.session())
    me = join(session, "a")
    Membership(session).announce(me, Holding(Epoch(4)))
    rings: list[None] = []
    observer.live(lambda: rings.append(None))
    session.expire()
    assert rings
    assert observer.live() == ()
    assert observer.holding(me) is None


def test_leaving_takes_both_at_once() -> None:
    server = FakeZooKeeper()
    session, observer = server.session(), Membership(server.session())
    me = join(session, "a")
    Membership(session).announce(me, Holding(Epoch(4)))
    Membership(session).leave(me)
    assert observer.live() == ()
    assert not [path for path in server.dump() if path.startswith("/holdings/")]


def test_a_holding_is_what_was_announced_last() -> None:
    server = FakeZooKeeper()
    session = server.session()
    me, members = join(session, "a"), Membership(session)
    assert members.holding(me) == Holding()
    for holding in (
        Holding(Epoch(1), frozenset({a_key("t-0"), a_key("t-1"), a_key("t-1", "other")})),
        Holding(Epoch(2), frozenset({a_key("a.b-c-7", "gr/oup")})),
        Holding(Epoch(3), groups=frozenset({GroupName("gr/oup"), GroupName("orders")})),
    ):
        members.announce(me, holding)
        assert Membership(server.session()).holding(me) == holding


def test_a_holding_of_many_long_topic_names_fits_into_a_node() -> None:
    server = FakeZooKeeper()
    session = server.session()
    me = Membership(session).join(an_instance("one"))
    names = [f"{number:05}-{'orders.of.a.rather.long.name' * 8}" for number in range(20_000)]
    holding = Holding(Epoch(1), frozenset(a_key(f"{name}-0") for name in names))
    Membership(session).announce(me, holding)
    assert len(session.read(f"/holdings/i-{me.sequence:010}").data) < 1_000_000
    assert Membership(server.session()).holding(me) == holding


def test_a_holding_that_fits_is_stored_as_json() -> None:
    """Instances of an earlier version read it."""
    session = FakeZooKeeper().session()
    me = Membership(session).join(an_instance("one"))
    Membership(session).announce(me, Holding(Epoch(1), frozenset({a_key("t-0")})))
    data = session.read(f"/holdings/i-{me.sequence:010}").data
    assert json.loads(data) == {"epoch": 1, "releasing": {"orders": {"t": "0"}}, "groups": []}


def test_a_restarted_instance_does_not_write_into_the_holding_of_its_dead_session() -> None:
    server = FakeZooKeeper()
    dead, alive = server.session(), server.session()
    ghost, me = join(dead, "a"), join(alive, "a")
    Membership(dead).announce(ghost, Holding(Epoch(1)))
    Membership(alive).announce(me, Holding(Epoch(2)))
    dead.expire()
    assert Membership(alive).holding(me) == Holding(Epoch(2))


def test_a_holding_watch_rings_for_the_first_announcement_and_for_a_change() -> None:
    server = FakeZooKeeper()
    session, observer = server.session(), Membership(server.session())
    me, rings = an_instance("a", 17), list[str]()
    assert observer.holding(me, lambda: rings.append("first")) is None
    Membership(session).announce(me, Holding(Epoch(1)))
    assert rings == ["first"]
    observer.holding(me, lambda: rings.append("change"))
    Membership(session).announce(me, Holding(Epoch(2)))
    assert rings == ["first", "change"]


def test_a_lane_is_given_up_only_at_that_epoch_and_once_it_is_not_being_released() -> None:
    key, other = a_key("t-0"), a_key("t-1")
    holding = Holding(Epoch(5), frozenset({other}), frozenset({key.group}))
    assert holding.has_given_up(key, Epoch(5))
    assert not holding.has_given_up(key, Epoch(4))
    assert not holding.has_given_up(key, Epoch(6))
    assert not holding.has_given_up(other, Epoch(5))


def test_an_instance_of_a_newer_version_is_one_of_us() -> None:
    session = FakeZooKeeper().session()
    document = b'{"name": "new", "host": "h", "process_id": 1, "rest_address": "a", "zone": "z"}'
    session.create("/live/i-", document, ephemeral=True, sequential=True)
    (found,) = Membership(session).live()
    assert (found.name, found.weight) == ("new", 1.0)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"\xff",
        b"{}",
        b'{"epoch": 1, "releasing": 5, "groups": []}',
        b'{"epoch": "1", "releasing": {}, "groups": []}',
        b'{"epoch": 1, "releasing": {"g": {"t": "0-999999999"}}, "groups": []}',
        b'{"epoch": 1, "releasing": {"g": {"t": 5}}, "groups": [{}]}',
        b'{"epoch": ' + b"1" * 5_000 + b', "releasing": {}, "groups": []}',
        b"[" * 100_000,
        b"x",
        b"x\x9c damaged",
    ],
    ids=lambda document: str(document[:40]),
)
def test_an_instance_whose_holding_cannot_be_read_holds_everything_until_it_is_overdue(
    document: bytes,
) -> None:
    session = FakeZooKeeper().session()
    me = Membership(session).join(an_instance("one"))
    session.write(f"/holdings/i-{me.sequence:010}", document, 0)
    holding = Membership(session).holding(me)
    assert holding is not None
    assert not holding.has_given_up(a_key("t-0"), Epoch(1))
    spec = a_spec("t-0")
    missing, others = {spec.key: spec}, {me.name: holding}
    assert starts(missing, Epoch(1), others).waiting == {spec.key: me.name}
    assert starts(missing, Epoch(1), others, frozenset(missing)).start == (spec,)


@pytest.mark.parametrize("document", [b"", b"{", b"{}", b'{"name": 5}', b"[" * 100_000], ids=str)
def test_what_is_no_instance_neither_leads_nor_holds_up_anybody(document: bytes) -> None:
    server = FakeZooKeeper()
    session = server.session()
    session.create("/live/i-", document, sequential=True)
    session.create("/live/somebody", document)
    members = Membership(server.session())
    me = members.join(an_instance("one", sequence=9))
    for one in (members, Membership(server.session())):
        assert [found.name for found in one.live()] == ["one"]
        leader = one.leader(me.sequence, lambda: None)
        assert leader is not None
        assert leader.sequence == me.sequence


def test_an_instance_whose_node_is_overwritten_is_here_as_long_as_it_holds_something() -> None:
    server = FakeZooKeeper()
    first, second = Membership(server.session()), Membership(server.session())
    one = first.join(an_instance("one"))
    server.session().write(f"/live/i-{one.sequence:010}", b"{", 0)
    two = second.join(an_instance("two"))
    found = second.live()
    assert [(each.sequence, each.is_leaving) for each in found] == [
        (one.sequence, True),
        (two.sequence, False),
    ]
    leader = second.leader(two.sequence)
    assert leader is not None
    assert leader.sequence == one.sequence
    assert [each.name for each in first.live()] == ["one", "two"]
    first.leave(one)
    assert [each.name for each in second.live()] == ["two"]
