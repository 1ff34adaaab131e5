"""The store on Kafka between fake brokers, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from mirror.adapters.kafka_store.snapshot_topic import SnapshotTopic
from mirror.client.event_loop import Promise
from mirror.coordination.store.commands import Changes, EndSession, EphemeralNode, RefusalKind, Result
from mirror.coordination.store.machine import State
from mirror.coordination.store.replica import FiredWatch
from mirror.coordination.store.tree import find
from mirror.errors import ConfigError, DamagedStore, HeadraceError, NewerFormat, SessionLost, Unreachable
from mirror.model.nodes import NewNode, NodeWrite, SessionState
from tests.fakes.broker.batches import records_of
from tests.fakes.broker.faults import Code, Drop, Gate, HandledRequest, Hold
from tests.fakes.shared_store import SNAPSHOTS, TOPIC, StoreFleet, StoreInstance

PRODUCE, DELETE_RECORDS, DESCRIBE_CONFIGS = 0, 21, 32
TIMEOUT = 6.0
LOST, SUSPENDED, CONNECTED = SessionState.LOST, SessionState.SUSPENDED, SessionState.CONNECTED


@pytest.fixture
def fleet() -> Iterator[StoreFleet]:
    made = StoreFleet()
    yield made
    made.close()


def leader_of(fleet: StoreFleet) -> int:
    return fleet.cluster.partition(TOPIC).leader


def fail(instance: StoreInstance, *operations: NewNode) -> HeadraceError:
    """The error of a change that cannot be confirmed."""
    with pytest.raises(HeadraceError) as failure:
        instance.change(*operations)
    return failure.value


def refusal_of(end: Promise[Result]) -> RefusalKind | None:
    """Why a command was refused."""
    refusal = end.result().refusal
    return refusal.kind if refusal is not None else None


def test_instances_see_the_same_nodes(fleet: StoreFleet) -> None:
    one, two = fleet.instance(), fleet.instance()
    assert one.change(NewNode("/a", b"1")).refusal is None
    two.spawn(two.store.sync())
    assert two.nodes() == {"/a": b"1"}
    assert two.change(NodeWrite("/a", b"2", 0)).answers == (1,)
    assert one.change(NodeWrite("/a", b"3", 0)).refusal is not None
    assert one.nodes() == {"/a": b"2"}
    assert one.states == [CONNECTED]


def test_changes_of_others_are_read_together(fleet: StoreFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = fleet.instance(), fleet.instance()
    reads: list[int] = []
    publish = two.store.replica.publish

    def count(state: State, changes: Sequence[Changes]) -> list[FiredWatch]:
        reads.append(len(changes))
        return publish(state, changes)

    monkeypatch.setattr(two.store.replica, "publish", count)
    for number in range(30):
        one.change(NewNode(f"/{number}", b""))
    two.change(NewNode("/last", b""))
    assert len(two.nodes()) == 31
    assert sum(reads) > 30
    assert len(reads) < 20


def test_the_topics_are_created_so_that_nothing_acknowledged_is_lost(fleet: StoreFleet) -> None:
    fleet.instance()
    log, snapshots = fleet.cluster.topics[TOPIC], fleet.cluster.topics[SNAPSHOTS]
    assert [len(one.partitions[0].replicas) for one in (log, snapshots)] == [3, 3]
    assert {one.setting("min.insync.replicas") for one in (log, snapshots)} == {"2"}
    assert log.setting("retention.ms") == "-1"
    assert snapshots.setting("cleanup.policy") == "compact"


# Sessions


def test_a_killed_instance_is_ended_by_the_others_after_its_timeout(fleet: StoreFleet) -> None:
    one, two, three = (fleet.instance() for _ in range(3))
    one.change(EphemeralNode("/live/i-", b"", True))
    killed_at = fleet.clock.monotonic()
    one.kill()
    fleet.run_until(lambda: one.session not in two.store.replica.state.sessions, "its end")
    assert fleet.clock.monotonic() - killed_at < TIMEOUT + 1.0
    fleet.run(1.0)
    assert "/live/i-0000000000" not in {**two.nodes(), **three.nodes()}
    assert two.is_connected
    assert three.is_connected


def test_two_instances_that_end_the_same_session_at_once(fleet: StoreFleet) -> None:
    one, two, three = (fleet.instance() for _ in range(3))
    heartbeat = two.store.replica.state.sessions[one.session].heartbeat
    ends = [each.store.submit(EndSession(one.session, heartbeat)) for each in (two, three)]
    fleet.run_until(lambda: all(end.is_done for end in ends), "both results")
    assert {refusal_of(end) for end in ends} == {None, RefusalKind.NO_SESSION}


def test_a_heartbeat_that_arrives_first_saves_the_session(fleet: StoreFleet) -> None:
    one, two = fleet.instance(), fleet.instance()
    seen = two.store.replica.state.sessions[one.session].heartbeat
    one.spawn(one.store.sync())
    end = two.store.submit(EndSession(one.session, seen))
    fleet.run_until(lambda: end.is_done, "the refusal")
    assert refusal_of(end) is RefusalKind.ALIVE
    fleet.run(20.0)
    assert one.states == [CONNECTED]


def test_a_heartbeat_that_arrives_second_finds_no_session(fleet: StoreFleet) -> None:
    one, two = fleet.instance(), fleet.instance()
    one.is_frozen = True
    fleet.run_until(lambda: one.session not in two.store.replica.state.sessions, "its end")
    former, one.is_frozen = one.session, False
    fleet.run_until(lambda: one.is_connected and one.session != former, "another session")
    assert one.states == [CONNECTED, LOST, CONNECTED]
    assert two.states == [CONNECTED]


def test_a_frozen_instance_has_lost_its_session_before_it_reads_anything(fleet: StoreFleet) -> None:
    one, _ = fleet.instance(), fleet.instance()
    one.is_frozen = True
    fleet.run(TIMEOUT + 2)
    one.loop.run_once(0.0)
    fleet.run(0.1)
    assert LOST in one.states


def test_a_stalled_log_suspends_and_then_ends_the_session(fleet: StoreFleet) -> None:
    one, two = fleet.instance(), fleet.instance()
    for node in fleet.cluster.brokers:
        fleet.cluster.freeze(node)
    stalled_at = fleet.clock.monotonic()
    fleet.run_until(lambda: SUSPENDED in one.states, "suspended")
    assert fleet.clock.monotonic() - one.store.answered_at < TIMEOUT * 0.75
    fleet.run_until(lambda: LOST in one.states, "lost")
    assert stalled_at < fleet.clock.monotonic() <= one.store.answered_at + TIMEOUT + 0.6
    fleet.run_until(lambda: one.troubles, "its trouble")
    for node in fleet.cluster.brokers:
        fleet.cluster.thaw(node)
    fleet.run_until(lambda: one.is_connected and two.is_connected, "new sessions")
    assert one.change(NewNode("/a", b"")).refusal is None
    fleet.run_until(lambda: one.troubles[-1] is None, "no trouble")
    assert set(two.store.replica.state.sessions) == {one.session, two.session}


def test_a_short_stall_ends_no_session(fleet: StoreFleet) -> None:
    one, two = fleet.instance(), fleet.instance()
    for node in fleet.cluster.brokers:
        fleet.cluster.freeze(node)
    fleet.run(2.5)
    for node in fleet.cluster.brokers:
        fleet.cluster.thaw(node)
    fleet.run(20.0)
    assert LOST not in one.states + two.states


def test_the_timeout_of_a_session_is_that_of_its_owner(fleet: StoreFleet) -> None:
    patient, hasty = fleet.instance(timeout_seconds=30.0), fleet.instance(timeout_seconds=3.0)
    patient.is_frozen = True
    fleet.run(20.0)
    assert patient.session in hasty.store.replica.state.sessions
    fleet.run(12.0)
    assert patient.session not in hasty.store.replica.state.sessions


def test_an_instance_that_leaves_is_gone_at_once(fleet: StoreFleet) -> None:
    one, two = fleet.instance(), fleet.instance()
    one.change(EphemeralNode("/live", b""))
    one.spawn(one.store.end_session())
    two.spawn(two.store.sync())
    assert "/live" not in two.nodes()
    with pytest.raises(SessionLost):
        one.spawn(one.store.sync())


# Deliveries


def test_a_lost_answer_repeats_no_change(fleet: StoreFleet) -> None:
    one = fleet.instance()
    fleet.cluster.faults.plant(PRODUCE, Drop(applied=True))
    path = one.change(EphemeralNode("/n-", b"", True)).answers
    assert path == ("/n-0000000000",)
    assert list(one.nodes()) == ["/n-0000000000"]
    assert one.change(NewNode("/b", b"")).refusal is None


def test_a_failed_change_does_not_take_effect_after_a_later_one(fleet: StoreFleet) -> None:
    one, gate = fleet.instance(), Gate()
    fleet.cluster.faults.plant(PRODUCE, Hold(gate), times=None)
    assert isinstance(fail(one, NewNode("/late", b"")), Unreachable)
    fleet.cluster.faults.clear()
    assert one.change(NewNode("/later", b"")).refusal is None
    gate.open()
    fleet.run(5.0)
    assert "/late" not in one.nodes()
    assert "/later" in one.nodes()


def test_a_change_is_unconfirmed_while_too_few_replicas_have_it(fleet: StoreFleet) -> None:
    one = fleet.instance()
    fleet.log().is_replicated = False
    assert isinstance(fail(one, NewNode("/a", b"")), HeadraceError)
    assert "/a" not in one.nodes()
    fleet.log().replicate()
    fleet.run_until(lambda: one.is_connected, "a session")
    assert one.change(NewNode("/b", b"")).refusal is None


@pytest.mark.parametrize("number", range(4))
def test_a_failed_leader_is_replaced(fleet: StoreFleet, number: int) -> None:
    one, two = fleet.instance(), fleet.instance()
    fleet.run(number * 0.7)
    promise = one.begin(NewNode("/a", b"1"))
    fleet.cluster.take_down(leader_of(fleet))
    fleet.run_until(lambda: promise.is_done, "the result")
    assert promise.result().refusal is None
    two.spawn(two.store.sync())
    assert two.nodes() == {"/a": b"1"}
    assert one.states == two.states == [CONNECTED]


def test_a_leader_that_moves_is_followed(fleet: StoreFleet) -> None:
    one = fleet.instance()
    for number in range(6):
        fleet.cluster.move_leader(TOPIC, 0, number % 3 + 1)
        assert one.change(NewNode(f"/{number}", b"")).refusal is None
    assert one.states == [CONNECTED]


def test_lost_records_are_noticed(fleet: StoreFleet) -> None:
    one, two = fleet.instance(), fleet.instance()
    end = fleet.log().end
    one.change(NewNode("/lost", b""))
    fleet.cluster.elect_uncleanly(TOPIC, 0, leader_of(fleet) % 3 + 1, end)
    fleet.run(10.0)
    fleet.run_until(lambda: one.is_connected and two.is_connected, "sessions")
    one.change(NewNode("/found", b""))
    two.spawn(two.store.sync())
    assert set(one.nodes()) == set(two.nodes()) == {"/found"}


def test_a_topic_that_was_created_again_is_another_store(fleet: StoreFleet) -> None:
    one = fleet.instance()
    one.change(NewNode("/a", b""))
    fleet.cluster.recreate_topic(TOPIC)
    fleet.run_until(lambda: "/a" not in one.nodes() and one.is_connected, "an empty store")
    assert one.change(NewNode("/b", b"")).refusal is None


# Sizes and foreign records


def test_a_change_larger_than_a_message_is_one_change(fleet: StoreFleet) -> None:
    one, two = fleet.instance(), fleet.instance()
    large = bytes(range(256)) * 4_000
    first = one.begin(*(NewNode(f"/large/{number}", large) for number in range(5)))
    second = two.begin(NewNode("/small", b""))
    fleet.run_until(lambda: first.is_done and second.is_done, "both")
    assert first.result().refusal is None
    two.spawn(two.store.sync())
    assert len(two.nodes()) == len(one.nodes()) == 7
    assert max(len(batch.data) for batch in fleet.log().batches) <= 1_048_588


def test_a_limit_that_was_lowered_is_kept(fleet: StoreFleet) -> None:
    one = fleet.instance()
    fleet.cluster.topics[TOPIC].own["max.message.bytes"] = "50000"
    noise = b"".join(number.to_bytes(4, "big") for number in range(0, 2**32, 20_011))
    assert one.change(NewNode("/a", noise[:800_000])).refusal is None
    assert one.nodes()["/a"] == noise[:800_000]


def test_records_of_others_are_ignored(fleet: StoreFleet) -> None:
    one = fleet.instance()
    fleet.cluster.write(TOPIC, [(0, None, b"hello", []), (0, b"k", None, [])])
    assert one.change(NewNode("/a", b"")).refusal is None
    assert one.store.log_state is not None
    assert one.store.log_state.foreign == 2


def test_commands_of_a_newer_version_stop_an_instance(fleet: StoreFleet) -> None:
    one = fleet.instance()
    fleet.cluster.write(TOPIC, [(0, None, b"\x89HRc\xff" + bytes(60), [])])
    fleet.run_until(lambda: one.troubles, "the trouble")
    assert isinstance(one.troubles[0], NewerFormat)
    fleet.run_until(lambda: LOST in one.states, "lost")


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"min_insync_replicas": "1"}, "min.insync.replicas"),
        ({"min_insync_replicas": "4"}, "min.insync.replicas"),
        ({"min_insync_replicas": "2", "cleanup_policy": "compact"}, "cleanup.policy"),
        ({"min_insync_replicas": "2", "unclean_leader_election_enable": "true"}, "unclean"),
        ({"min_insync_replicas": "2"}, "retention.ms"),
    ],
)
def test_unsuitable_topics_are_refused(fleet: StoreFleet, settings: dict[str, str], word: str) -> None:
    fleet.cluster.create_topic(TOPIC, 1, 3, **settings)
    one = fleet.launch()
    fleet.run_until(lambda: one.troubles, "the refusal")
    assert isinstance(one.troubles[0], ConfigError)
    assert word in str(one.troubles[0])


@pytest.mark.parametrize(("partitions", "replicas", "word"), [(2, 3, "partitions"), (1, 1, "replica")])
def test_topics_of_another_shape_are_refused(
    fleet: StoreFleet, partitions: int, replicas: int, word: str
) -> None:
    fleet.cluster.create_topic(TOPIC, partitions, replicas)
    one = fleet.launch()
    fleet.run_until(lambda: one.troubles, "the refusal")
    assert isinstance(one.troubles[0], ConfigError)
    assert word in str(one.troubles[0])


# Snapshots


def filled(fleet: StoreFleet, instance: StoreInstance, rounds: int, first: int = 0) -> dict[str, bytes]:
    """Nodes after writing so much to a few of them that snapshots become due."""
    for number in range(first, first + rounds):
        path, data = f"/n{number % 4}", Random(number).randbytes(2_000)
        node = find(instance.store.replica.state.root, path)
        operation = NewNode(path, data) if node is None else NodeWrite(path, data, node.version)
        assert instance.change(operation).refusal is None
        fleet.run(0.1)
    fleet.run(3.0)
    return instance.nodes()


def test_snapshots_trim_the_log_and_a_new_instance_loads_one(fleet: StoreFleet) -> None:
    one = fleet.instance(least_growth=4_000)
    written = filled(fleet, one, 40)
    assert 0 < fleet.log().start < fleet.log().end
    two = fleet.instance()
    assert two.nodes() == written
    assert one.states == [CONNECTED]


def test_an_instance_that_was_away_loads_a_snapshot(fleet: StoreFleet) -> None:
    one, away = fleet.instance(least_growth=4_000), fleet.instance()
    fired: list[str] = []
    away.store.replica.read_node(away.session, "/n3", lambda: fired.append("/n3"))
    read_to = away.store.log_state.next_offset if away.store.log_state else 0
    away.is_frozen = True
    written = filled(fleet, one, 60)
    assert fleet.log().start > read_to
    away.is_frozen = False
    fleet.run_until(lambda: away.nodes() == written and away.is_connected, "the same nodes")
    assert fired == ["/n3"]
    assert away.change(NewNode("/again", b"")).refusal is None


def test_a_torn_snapshot_is_ignored(fleet: StoreFleet) -> None:
    one = fleet.instance(least_growth=4_000)
    filled(fleet, one, 30)
    ends = [batch for batch in fleet.snapshots.batches if b"/end" in batch.data]
    writer = fleet.instance(least_growth=1)
    fleet.cluster.faults.plant(PRODUCE, Code(10), times=None, fits=_has_end)
    written = filled(fleet, writer, 5, first=100)
    assert len(fleet.snapshots.batches) > len(ends)
    writer.kill()
    fleet.cluster.faults.clear()
    assert fleet.instance().nodes() == written


def _has_end(asked: HandledRequest) -> bool:
    return b"/end" in bytes(asked.message.topic_data[0].partition_data[0].records)


def test_the_snapshot_before_a_damaged_one_is_used(fleet: StoreFleet) -> None:
    one = fleet.instance(least_growth=4_000)
    written = filled(fleet, one, 60)
    log = fleet.snapshots
    newest_end = max(index for index, batch in enumerate(log.batches) if b"/end" in batch.data)
    log.compact(log.batches[newest_end - 1].base, None)
    two = fleet.instance()
    assert two.nodes() == written


def test_a_trimmed_log_without_a_snapshot_is_damage(fleet: StoreFleet) -> None:
    one = fleet.instance()
    filled(fleet, one, 3)
    fleet.log().delete_before(4)
    two = fleet.launch()
    fleet.run_until(lambda: two.troubles, "the damage")
    assert isinstance(two.troubles[0], DamagedStore)


def test_two_snapshots_under_way(fleet: StoreFleet) -> None:
    instances = [fleet.instance(), fleet.instance()]
    written = filled(fleet, instances[0], 20)
    tasks = []
    for each in instances:
        topics = each.store._followed.topics  # type: ignore[union-attr]
        snapshots = SnapshotTopic(each.store._cluster, topics)
        state = each.store.log_state
        assert state is not None
        tasks.append(each.loop.spawn(snapshots.write(state)))
        fleet.run(0.01)
    fleet.run_until(lambda: all(task.is_done for task in tasks), "both")
    filled(fleet, instances[0], 1, first=50)
    for each in instances:
        topics = each.store._followed.topics  # type: ignore[union-attr]
        each.spawn(SnapshotTopic(each.store._cluster, topics).clean())
    assert fleet.log().start > 0
    assert fleet.instance().nodes() == {**written, **instances[0].nodes()}


def test_a_log_that_may_not_be_trimmed_becomes_longer(fleet: StoreFleet) -> None:
    fleet.cluster.faults.plant(DELETE_RECORDS, Code(29), times=None)
    one = fleet.instance(least_growth=4_000)
    written = filled(fleet, one, 40)
    assert fleet.log().start == 0
    assert fleet.instance().nodes() == written


def test_superseded_snapshots_are_deleted(fleet: StoreFleet) -> None:
    one = fleet.instance(least_growth=2_000)
    filled(fleet, one, 60)
    tombstones = sum(
        record.value is None for batch in fleet.snapshots.batches for record in records_of(batch.data) or ()
    )
    assert tombstones > 0


def test_a_topic_that_brokers_do_not_all_know_yet_is_no_error(fleet: StoreFleet) -> None:
    fleet.cluster.faults.plant(DESCRIBE_CONFIGS, Code(3), times=3)
    assert fleet.instance().troubles == []


def test_two_instances_that_start_at_once_create_the_topics_once(fleet: StoreFleet) -> None:
    one, two = fleet.launch(), fleet.launch()
    fleet.run_until(lambda: one.is_connected and two.is_connected, "sessions")
    one.change(NewNode("/a", b""))
    two.spawn(two.store.sync())
    assert two.nodes() == {"/a": b""}
