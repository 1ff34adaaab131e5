"""The stored state of a pair, the opposite datastreams, and the groups that a switch-over moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final, cast

import pytest

from headrace.dr.acts import SwitchoverActs
from headrace.dr.check import FAIL, WARN, CheckItem, clock_items, group_items
from headrace.dr.datastreams import opposite, require_direction
from headrace.dr.drill import plain_name
from headrace.dr.groups import GroupMove
from headrace.dr.outages import undo_advice, waiting_advice
from headrace.dr.pair_session import PairSession
from headrace.dr.state_store import PairStateStore
from headrace.dr.status import sums_by_topic, word_of
from mirror.errors import IllegalTransition, Refused, TimedOut, Unreachable, VersionConflict
from mirror.jobs.dr.driver import Driver
from mirror.jobs.dr.operation import PairState, Step, Switchover, begin, operation_of
from mirror.jobs.dr.settings import PairSettings
from mirror.jobs.groups.source import listed
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import is_legal_topic
from mirror.protocol.control.groups import ListedGroup
from mirror.replication.context import EngineContext
from tests.fakes.broker.faults import Run
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.node_store import FakeZooKeeper

OFFSET_COMMIT, DESCRIBE_SHARE, ALTER_SHARE = 8, 90, 91
CLUSTERS: Final = {"east": ClusterRef("source"), "west": ClusterRef("destination")}
FRESH: Final = PairState(name="p/1", active="source", datastreams={"orders": "orders"})
PAIR: Final = PairSettings(primary="source", standby="destination", datastreams=["orders"])


@pytest.fixture
def fakes() -> Iterator[MirroredFakes]:
    with closing(MirroredFakes(1)) as rig:
        yield rig


def store_on(
    zookeeper: FakeZooKeeper, fakes: MirroredFakes, notes: list[str] | None = None
) -> PairStateStore:
    said: list[str] = [] if notes is None else notes
    return PairStateStore(zookeeper.session(), fakes.context, CLUSTERS, FRESH, said.append)


def test_a_state_is_read_from_the_store_or_else_from_a_cluster(fakes: MirroredFakes) -> None:
    zookeeper, notes = FakeZooKeeper(), list[str]()
    store = store_on(zookeeper, fakes)
    assert store.read() == FRESH
    store.save(store.save(begin(FRESH, "destination", "i", 1, "me"), everywhere=True), everywhere=True)
    for server in (zookeeper, FakeZooKeeper()):
        found = store_on(server, fakes, notes).read()
        assert (found.version, found.operation and found.operation.identity) == (2, "i")
    after = store_on(lost := FakeZooKeeper(), fakes)
    assert after.save(after.read(), everywhere=True).version == 3
    assert store_on(lost, fakes).read().version == 3
    assert not notes


def test_one_of_two_operators_wins(fakes: MirroredFakes) -> None:
    zookeeper = FakeZooKeeper()
    one, two = store_on(zookeeper, fakes), store_on(zookeeper, fakes)
    first, second = one.read(), two.read()
    won = one.save(first, everywhere=True)
    with pytest.raises(VersionConflict):
        two.save(second, everywhere=True)
    assert one.save(won, everywhere=True).version == 2
    assert store_on(zookeeper, fakes).read().writer == won.writer


def test_an_operator_who_reads_again_takes_over(fakes: MirroredFakes) -> None:
    zookeeper = FakeZooKeeper()
    one, two = store_on(zookeeper, fakes), store_on(zookeeper, fakes)
    won = one.save(one.read(), everywhere=True)
    two.save(two.read(), everywhere=True)
    with pytest.raises(VersionConflict):
        one.save(won, everywhere=True)


def test_a_write_whose_response_was_lost_is_recognised(fakes: MirroredFakes) -> None:
    store = store_on(FakeZooKeeper(), fakes)
    state = store.save(store.read(), everywhere=True)
    store.save(state, everywhere=True)  # as if its response had been lost
    assert store.save(state, everywhere=True).version == state.version + 1


def test_a_state_must_be_stored_at_both_clusters_except_for_an_undo(fakes: MirroredFakes) -> None:
    notes: list[str] = []
    store = store_on(FakeZooKeeper(), fakes, notes)
    state = store.save(store.read(), everywhere=True)
    fakes.target.take_down(1)
    with pytest.raises(Unreachable):
        store.save(state, everywhere=True)
    assert store.save(state, everywhere=False).version == state.version + 1
    assert len(notes) == 1


def test_one_of_two_drills_runs(fakes: MirroredFakes) -> None:
    zookeeper = FakeZooKeeper()
    session = zookeeper.session()
    one = PairStateStore(session, fakes.context, CLUSTERS, FRESH, print)
    one.begin_drill()
    store_on(zookeeper, fakes).beside(FRESH.with_(name="other")).begin_drill()
    with pytest.raises(IllegalTransition):
        store_on(zookeeper, fakes).begin_drill()
    session.expire()
    store_on(zookeeper, fakes).begin_drill()


class Standstill:
    """Acts of which none can be done, because a cluster is down."""

    def intend(self, state: PairState, operation: Switchover) -> Switchover:
        return operation

    def perform(self, state: PairState, operation: Switchover) -> Switchover:
        raise Unreachable("the standby is down")

    def undo(self, state: PairState, operation: Switchover, step: Step) -> None:
        raise AssertionError("nothing was done")


def test_a_switchover_to_a_cluster_that_is_down_leaves_nothing(fakes: MirroredFakes) -> None:
    store = store_on(FakeZooKeeper(), fakes)
    tries = iter([True, True, False])
    driver = Driver(
        Standstill(), store, fakes.clock, lambda _error, undo: not undo and next(tries), lambda _: None
    )
    state = driver.run(begin(store.read(), "destination", "i", 1, "me"))
    assert (state.active, state.operation) == ("source", None)
    assert "down" in state.history[-1].failure


class NeedsBoth(Standstill):
    """Acts of which each reads from both clusters, and then takes two seconds."""

    def __init__(self, bench: EngineContext) -> None:
        self._bench = bench

    def perform(self, state: PairState, operation: Switchover) -> Switchover:
        self._bench.run(self._perform())
        return operation

    async def _perform(self) -> None:
        for cluster in CLUSTERS.values():
            await self._bench.cluster(cluster).all_topics()
        await self._bench.loop.sleep(2.0)

    def undo(self, state: PairState, operation: Switchover, step: Step) -> None:
        self._bench.run(self._perform())


class Waiting:
    """A session of a pair, with its notes and the seconds after which they came."""

    def __init__(self, fakes: MirroredFakes) -> None:
        self.clock = fakes.clock
        self.notes: list[tuple[float, str]] = []
        store = PairStateStore(FakeZooKeeper().session(), fakes.context, CLUSTERS, FRESH, self.note)
        acts = cast(SwitchoverActs, NeedsBoth(fakes.context))
        self.session = PairSession("p/1", PAIR, fakes.context, store, acts, self.note)
        self.planned = self.session.planned("destination")
        self.began = self.clock.monotonic()

    def note(self, text: str) -> None:
        self.notes.append((self.clock.monotonic() - self.began, text))

    def about(self, words: str) -> list[tuple[float, str]]:
        return [(seconds, text) for seconds, text in self.notes if words in text]


@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize("name", ["source", "destination"])
def test_a_switchover_reports_early_which_cluster_it_waits_for(
    fakes: MirroredFakes, name: str, is_frozen: bool
) -> None:
    waiting, cluster = Waiting(fakes), fakes.source if name == "source" else fakes.target
    stop, restore = (cluster.freeze, cluster.thaw) if is_frozen else (cluster.take_down, cluster.bring_up)
    stop(1)
    fakes.context.loop.call_later(90.0, lambda: restore(1))
    state = waiting.session.run(waiting.planned, 600.0)
    assert (state.active, state.history[-1].failure) == ("destination", "")
    ((seconds, text),) = waiting.about("does not respond (")
    assert seconds <= 10.0
    assert text.startswith(f"{name} does not respond (cluster {name}: 127.0.0.1:")
    assert "the switchover waits up to 10 min for it" in text
    assert "undo the switchover with headrace dr abort p/1" in text
    assert ("headrace dr failover p/1 --to destination" in text) == (name == "source")
    ((seconds, _),) = waiting.about(f"{name} responds again")
    assert 90.0 <= seconds <= 130.0


def test_an_undo_and_the_last_step_have_their_own_advice(fakes: MirroredFakes) -> None:
    """An undo is possible before the last step only."""
    assert "dr abort" not in undo_advice("destination", 60.0)
    planned = operation_of(Waiting(fakes).planned)
    advice = waiting_advice("p", planned.with_(reached=Step.OPEN), "destination", 60.0)
    assert ("dr abort" in advice, "run the same command again" in advice) == (False, True)
    assert "dr abort" in waiting_advice("p", planned.with_(reached=Step.REVERSED), "destination", 60.0)


def test_the_wait_for_a_cluster_is_reported_by_an_undo_too(fakes: MirroredFakes) -> None:
    waiting = Waiting(fakes)
    state = waiting.session.store.save(waiting.planned, everywhere=True)
    reached = operation_of(state).with_(reached=Step.FENCED)
    waiting.session.store.save(state.with_(operation=reached), everywhere=True)
    fakes.target.take_down(1)
    fakes.context.loop.call_later(30.0, lambda: fakes.target.bring_up(1))
    waiting.session.abort("enough")
    assert waiting.about("destination does not respond (")
    assert waiting.about("the undo waits up to 60 s for it")


def test_a_switchover_without_an_outage_reports_none(fakes: MirroredFakes) -> None:
    waiting = Waiting(fakes)
    assert waiting.session.run(waiting.planned, 600.0).active == "destination"
    assert waiting.about("respond") == []


DEFINITION: Final[Mapping[str, Any]] = {
    "name": "orders",
    "owner": "payments",
    "source": {"cluster": "source", "topics": "t", "exclude": "", "internal": False, "match_all": False},
    "destination": {"cluster": "destination", "name": "*"},
    "metadata": {"system.taskPrefix": "shared", "team": "x"},
    "start": "latest",
    "start_positions": {"t": {"0": 3}},
    "status": "READY",
    "problem": None,
}


def test_the_opposite_datastream_starts_at_the_ends() -> None:
    body = opposite(DEFINITION, "orders-dr1", {"t": {0: 7}})
    assert (body["source"]["cluster"], body["destination"]["cluster"]) == ("destination", "source")
    assert (body["name"], body["start_positions"]) == ("orders-dr1", {"t": {"0": 7}})
    assert body["metadata"] == {"team": "x"}
    assert not {"status", "problem"} & body.keys()


def test_datastreams_of_another_direction_or_names_are_refused() -> None:
    require_direction(DEFINITION, "source", "destination")
    with pytest.raises(Refused):
        require_direction(DEFINITION, "destination", "source")
    renamed = {**DEFINITION, "destination": {"cluster": "destination", "name": "copy.*"}}
    with pytest.raises(Refused):
        require_direction(renamed, "source", "destination")


def test_states_have_words() -> None:
    there = begin(FRESH, "destination", "i", 1, "")
    over = FRESH.with_(active="destination")
    back = begin(over, "source", "i", 1, "")
    words = [word_of(state, PAIR) for state in (FRESH, there, over, back)]
    assert words == ["steady", "failing-over", "failed-over", "failing-back"]


def test_lag_is_added_up_by_topic() -> None:
    rows = [("t", 3, 40), ("t", None, None), ("u", 5, 2_000), ("u", 0, None)]
    partitions = [{"topic": t, "lag_records": records, "lag_ms": ms} for t, records, ms in rows]
    assert sums_by_topic(partitions) == [
        {"topic": "t", "records": 3, "seconds": 0.04, "unknown": 1},
        {"topic": "u", "records": 5, "seconds": 2.0, "unknown": 0},
    ]


@pytest.fixture
def copied(fakes: MirroredFakes) -> MirroredFakes:
    """Return clusters between which 20 records were copied, with the engine stopped."""
    fakes.make_topic("t", replication=1)
    fakes.write("t", 0, 20)
    fakes.start("t", group="shared")
    fakes.run_to("t", 20)
    fakes.stop()
    fakes.new_engine()
    return fakes


def mover(fakes: MirroredFakes) -> GroupMove:
    operation = Switchover(
        identity="", origin="source", target="destination", begun_ms=0, definitions={"orders": DEFINITION}
    )
    return GroupMove(fakes.context, operation, {}, {"orders": "orders"})


def test_groups_move_with_the_datastream(copied: MirroredFakes) -> None:
    place = ("t", 0)
    copied.source.groups.update({"bill": {place: 12}, "audit": {place: 3}, "bill-2": {("u", 0): 1}})
    moved, remarks = copied.context.run(mover(copied).move("bill.*"))
    assert copied.target.groups["bill"] == {place: 12}
    assert {"audit", "bill-2"}.isdisjoint(copied.target.groups)
    assert [(group.name, group.positions, group.read_again) for group in moved] == [("bill", 1, 0)]
    assert remarks == []
    assert copied.context.run(mover(copied).move("bill.*")) == (moved, remarks)


@pytest.mark.parametrize("kind", ["Classic", "Consumer", "Streams", "Share"])
def test_groups_of_each_type_move(copied: MirroredFakes, kind: str) -> None:
    commits: list[str] = []
    for key in (OFFSET_COMMIT, ALTER_SHARE):
        copied.target.faults.plant(key, Run(partial(commits.append, str(key))), times=None)
    copied.source.groups["bill"] = {("t", 0): 12}
    copied.source.group_states["bill"] = (kind, "Empty")
    is_share = kind == "Share"
    moved, remarks = copied.context.run(mover(copied).move("bill"))
    assert copied.target.groups["bill"] == {("t", 0): 12}
    assert commits == [str(ALTER_SHARE if is_share else OFFSET_COMMIT)]
    assert [(group.positions, group.may_redeliver) for group in moved] == [(1, is_share)]
    assert moved[0].read_again == (None if is_share else 0)
    assert ["again" in remark for remark in remarks] == [True] * is_share
    copied.target.groups["bill"]["t", 0] = 15
    (again,), _ = copied.context.run(mover(copied).move("bill"))
    assert (again.ahead, copied.target.groups["bill"]) == (1, {("t", 0): 15})


@pytest.mark.parametrize("kind", ["Classic", "Streams", "Share"])
def test_a_group_with_members_there_is_refused(copied: MirroredFakes, kind: str) -> None:
    copied.source.groups["bill"] = {("t", 0): 12}
    copied.source.group_states["bill"] = (kind, "Empty")
    copied.target.group_states["bill"] = (kind, "Stable")
    with pytest.raises(Refused, match="members"):
        copied.context.run(mover(copied).move("bill"))
    (item,) = checked(copied)
    assert (item.grade, "members" in item.detail) == (FAIL, True)


@pytest.mark.parametrize("kinds", [("Share", "Classic"), ("Consumer", "Share"), ("Share", "Streams")])
def test_a_group_of_another_type_there_is_refused(copied: MirroredFakes, kinds: tuple[str, str]) -> None:
    copied.source.groups["bill"] = {("t", 0): 12}
    for cluster, kind in zip((copied.source, copied.target), kinds, strict=True):
        cluster.group_states["bill"] = (kind, "Empty")
    with pytest.raises(Refused, match="another type"):
        copied.context.run(mover(copied).move("bill"))
    (item,) = checked(copied)
    assert (item.grade, "another type" in item.detail) == (FAIL, True)


def test_brokers_without_share_groups_are_reported(copied: MirroredFakes) -> None:
    copied.source.groups["bill"] = {("t", 0): 12}
    copied.source.group_states["bill"] = ("Share", "Empty")
    (item,) = checked(copied)
    assert (item.grade, "again" in item.detail) == (WARN, True)
    copied.target.newest_versions[DESCRIBE_SHARE] = -1
    moved, (remark,) = copied.context.run(mover(copied).move("bill"))
    assert (moved, "does not move" in remark) == ([], True)
    (item,) = checked(copied)
    assert (item.grade, item.detail) == (WARN, remark)


def test_a_start_offset_that_the_brokers_ignore_is_refused(copied: MirroredFakes) -> None:
    copied.source.groups["bill"] = {("t", 0): 12}
    copied.source.group_states["bill"] = ("Share", "Empty")
    copied.target.ignores_start_offsets = True
    with pytest.raises(Refused, match="ignores"):
        copied.context.run(mover(copied).move("bill"))


def checked(fakes: MirroredFakes) -> Sequence[CheckItem]:
    """Return the results of the check of group `bill`."""

    async def check() -> Sequence[CheckItem]:
        sides = [fakes.context.cluster(CLUSTERS[name]) for name in ("east", "west")]
        here, there = [(await listed(side)).groups for side in sides]
        return await group_items(sides[1], "bill", here["bill"], there.get("bill", ListedGroup()))

    return fakes.context.run(check())


def test_a_position_beyond_the_checkpoints_is_waited_for(copied: MirroredFakes) -> None:
    copied.source.groups["bill"] = {("t", 0): 25}
    copied.write("t", 20, 10)
    with pytest.raises(TimedOut):
        copied.context.run(mover(copied).move("bill"))
    assert "bill" not in copied.target.groups


def test_clocks_that_differ_are_warned_of() -> None:
    clocks = {
        name: {"ahead_seconds": ahead, "bound_seconds": 0.1}
        for name, ahead in {"east": -4.0, "west": 0.5, "other": 9.0}.items()
    }
    instances: list[dict[str, Any]] = [
        {"name": "a", "health": {"clocks": clocks}},
        {"name": "b", "health": None},
    ]
    (found,) = clock_items(instances, ["east", "west", "north"])
    assert (found.item, found.grade) == ("clocks", WARN)
    assert "east" in found.detail


@pytest.mark.parametrize("pair", ["payments", "a/b", "Größe", "\ud800", "x" * 300, "", " "])
def test_any_pair_has_a_legal_name_for_its_drills(pair: str) -> None:
    name = plain_name(pair)
    assert is_legal_topic(f"{name}-drill")
    assert len(name) <= 80
    assert name != plain_name(f"{pair}?")
