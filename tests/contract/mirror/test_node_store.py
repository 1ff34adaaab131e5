"""Contract tests of the in-memory ZooKeeper, the embedded store, and the adapters on real servers.

The store on Kafka also runs on a fake broker. Its reads are local, so that a change of another session
arrives a moment later, as on a follower of ZooKeeper: a client here calls `sync` before it reads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, cast
from uuid import uuid4

import pytest

from mirror.adapters.embedded_store.store import EmbeddedStore
from mirror.adapters.kafka_store.session import KafkaSession
from mirror.adapters.settings import CoordinationSettings, KafkaCluster, ZooKeeperSettings
from mirror.adapters.zookeeper import ZooKeeper
from mirror.coordination.store.session import StoreSession
from mirror.coordination.stores.znodes import MOST_CHANGED_BYTES, MOST_CHANGES
from mirror.errors import AlreadyExists, HeadraceError, NotFound, SessionLost, VersionConflict
from mirror.model.nodes import NewNode, NextNode, Node, NodeChange, NodeDeletion, NodeWrite
from mirror.ports import NodeStore
from stack.zookeeper import ZooKeeperServer
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.node_store import FakeSession, FakeZooKeeper
from tests.patience import PATIENCE_SECONDS, wait_until


class Client(Protocol):
    """A session that the test can expire."""

    @property
    def nodes(self) -> NodeStore: ...

    def end(self) -> None:
        """Expire the session and delete its ephemeral nodes."""
        ...


class FakeClient:
    def __init__(self, session: FakeSession) -> None:
        self.nodes: NodeStore = session
        self._session = session

    def end(self) -> None:
        self._session.expire()


class RealClient:
    def __init__(self, address: str, root: str) -> None:
        self._zookeeper = ZooKeeper(ZooKeeperSettings(servers=address, root=root))
        self._zookeeper.start()
        self.nodes: NodeStore = self._zookeeper

    def end(self) -> None:
        self._zookeeper.stop()


class EmbeddedClient:
    """A further session in the process that has the folder."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._session = StoreSession(store, uuid4().hex)
        self._session.open()
        self.nodes: NodeStore = self._session

    def end(self) -> None:
        self._session.close()


class SharedClient:
    """A client of the store on Kafka."""

    def __init__(self, address: str, topic: str) -> None:
        settings = CoordinationSettings(cluster="c", topic=topic, connect_timeout_seconds=PATIENCE_SECONDS)
        self._session = KafkaSession(KafkaCluster(bootstrap_servers=address), settings)
        self._session.start()
        self.nodes: NodeStore = cast(NodeStore, SyncedReads(self._session))

    def end(self) -> None:
        self._session.stop()


class SyncedReads:
    """Calls `sync` before each read."""

    def __init__(self, session: KafkaSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        if name in {"read", "read_all", "read_present", "children"}:
            self._session.sync()
        return getattr(self._session, name)


NewClient = Callable[[], Client]


@pytest.fixture(
    params=[
        "fake",
        "embedded",
        "shared",
        pytest.param("real", marks=pytest.mark.servers),
        pytest.param("kafka", marks=pytest.mark.servers),
    ]
)
def new_client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewClient]:
    if request.param == "fake":
        server = FakeZooKeeper()
        yield lambda: FakeClient(server.session())
        return
    if request.param == "embedded":
        store = EmbeddedStore(tmp_path, "one")
        store.open()
        yield lambda: EmbeddedClient(store)
        store.close()
        return
    made: list[Client] = []
    unique = uuid4().hex[:12]

    def keep(client: Client) -> Client:
        made.append(client)
        return client

    if request.param == "real":
        zookeeper: ZooKeeperServer = request.getfixturevalue("zookeeper_server")
        yield lambda: keep(RealClient(zookeeper.address, f"/contract-{unique}"))
    else:
        fixture = "fake_kafka" if request.param == "shared" else "destination_kafka"
        address: str = request.getfixturevalue(fixture).address
        yield lambda: keep(SharedClient(address, f"contract-{unique}"))
    for client in made:
        client.end()


@pytest.fixture(scope="module")
def fake_kafka() -> Iterator[FakeCluster]:
    """Return a running fake cluster."""
    with running(FakeCluster("contract")) as cluster:
        yield cluster


@pytest.fixture
def nodes(new_client: NewClient) -> NodeStore:
    return new_client().nodes


class CountingWatch:
    """Watch that counts its calls."""

    def __init__(self) -> None:
        self.rings = 0
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self.rings += 1

    def wait(self, rings: int = 1) -> None:
        wait_until(lambda: self.rings >= rings, f"{rings} rings")


def test_what_was_written_is_read(nodes: NodeStore) -> None:
    assert nodes.create("/a", b"one") == "/a"
    assert nodes.read("/a").data == b"one"
    assert nodes.read("/a").version == 0
    assert nodes.write("/a", b"two", 0) == 1
    assert nodes.read("/a") == nodes.read("/a")
    assert (nodes.read("/a").data, nodes.read("/a").version) == (b"two", 1)


def test_all_sessions_see_the_same_tree(new_client: NewClient) -> None:
    one, two = new_client().nodes, new_client().nodes
    one.create("/a/b", b"x")
    assert two.read("/a/b").data == b"x"


def test_parents_are_made_and_are_empty(nodes: NodeStore) -> None:
    nodes.create("/a/b/c", b"leaf")
    assert nodes.children("/a") == ("b",)
    assert nodes.read("/a/b").data == b""


def test_a_second_creation_is_refused_and_changes_nothing(nodes: NodeStore) -> None:
    nodes.create("/a", b"first")
    with pytest.raises(AlreadyExists):
        nodes.create("/a", b"second")
    assert nodes.read("/a").data == b"first"


def test_a_transaction_may_have_as_many_changes_and_bytes_as_the_stores_make_of_one(nodes: NodeStore) -> None:
    share = MOST_CHANGED_BYTES // MOST_CHANGES
    nodes.change_together([NewNode(f"/many/{number}", b"x" * share) for number in range(MOST_CHANGES)])
    found = nodes.read_all([f"/many/{number}" for number in range(MOST_CHANGES)])
    assert {(len(one.data), one.version) for one in found} == {(share, 0)}
    nodes.change_together([NodeWrite(f"/many/{number}", b"y" * share, 0) for number in range(MOST_CHANGES)])
    with pytest.raises(VersionConflict):
        nodes.change_together([NodeWrite("/many/0", b"z", 1), NodeWrite("/many/1", b"z", 0)])
    assert {one.data for one in nodes.read_all(["/many/0", "/many/1"])} == {b"y" * share}


def test_a_node_that_is_missing(nodes: NodeStore) -> None:
    with pytest.raises(NotFound):
        nodes.read("/a")
    with pytest.raises(NotFound):
        nodes.write("/a", b"", 0)
    assert nodes.children("/a") == ()
    nodes.delete("/a")
    nodes.delete_tree("/a/b")


@pytest.mark.parametrize("version", [0, 2])
def test_writing_asks_for_the_exact_version(nodes: NodeStore, version: int) -> None:
    nodes.create("/a", b"one")
    nodes.write("/a", b"two", 0)
    with pytest.raises(VersionConflict):
        nodes.write("/a", b"three", version)
    assert nodes.read("/a").data == b"two"


def test_only_one_of_two_writers_at_the_same_version_wins(new_client: NewClient) -> None:
    one, two = new_client().nodes, new_client().nodes
    one.create("/a")
    version = two.read("/a").version
    one.write("/a", b"one", version)
    with pytest.raises(VersionConflict):
        two.write("/a", b"two", version)


def test_deleting_asks_for_the_version_if_one_is_given(nodes: NodeStore) -> None:
    nodes.create("/a")
    nodes.write("/a", b"x", 0)
    with pytest.raises(VersionConflict):
        nodes.delete("/a", 0)
    nodes.delete("/a", 1)
    with pytest.raises(NotFound):
        nodes.read("/a")


def test_a_node_with_others_below_is_not_deleted(nodes: NodeStore) -> None:
    nodes.create("/a/b")
    with pytest.raises(VersionConflict):
        nodes.delete("/a")
    assert nodes.children("/a") == ("b",)


def test_a_tree_goes_as_a_whole(nodes: NodeStore) -> None:
    for path in ("/a/b/c", "/a/b/d", "/a/e", "/ab"):
        nodes.create(path)
    nodes.delete_tree("/a")
    assert nodes.children("") == ("ab",)


def test_many_at_once(nodes: NodeStore) -> None:
    made = [("/m/a", b"1"), ("/m/a/0", b"2"), ("/n/b", b"3"), *((f"/m/{n:04}", b"x") for n in range(600))]
    nodes.create_all(made)
    nodes.sync()
    assert [node.data for node in nodes.read_all([path for path, _ in made])] == [data for _, data in made]
    assert nodes.read("/m").data == b""


def test_of_many_at_once_those_that_are_missing_can_be_left_out(nodes: NodeStore) -> None:
    nodes.create_all([("/m/a", b"1"), ("/m/c", b"3")])
    found = nodes.read_present(["/m/c", "/m/b", "/m/a", "/n"])
    assert {path: node.data for path, node in found.items()} == {"/m/c": b"3", "/m/a": b"1"}
    assert list(found) == ["/m/c", "/m/a"]
    with pytest.raises(NotFound):
        nodes.read_all(["/m/a", "/m/b"])


def test_of_many_at_once_those_that_are_there_take_a_watch(nodes: NodeStore) -> None:
    nodes.create_all([("/m/a", b"1"), ("/m/c", b"3")])
    bells = {path: CountingWatch() for path in ("/m/a", "/m/b", "/m/c")}
    nodes.read_present(list(bells), bells.__getitem__)
    nodes.create("/m/b", b"2")
    nodes.write("/m/c", b"4", 0)
    bells["/m/c"].wait()
    assert (bells["/m/a"].rings, bells["/m/b"].rings) == (0, 0)


def test_one_of_many_that_is_there_already_is_refused(nodes: NodeStore) -> None:
    nodes.create("/m/b", b"first")
    with pytest.raises(AlreadyExists):
        nodes.create_all([("/m/a", b"1"), ("/m/b", b"2")])
    assert nodes.read("/m/b").data == b"first"


def test_one_of_many_that_is_missing(nodes: NodeStore) -> None:
    nodes.create("/m/a", b"1")
    with pytest.raises(NotFound):
        nodes.read_all(["/m/a", "/m/b"])
    assert list(nodes.read_all([])) == []


def test_children_are_sorted(nodes: NodeStore) -> None:
    for name in ("c", "a", "b"):
        nodes.create(f"/p/{name}")
    assert nodes.children("/p") == ("a", "b", "c")


def test_sequences_rise_and_never_come_again(nodes: NodeStore) -> None:
    first = nodes.create("/q/i-", sequential=True)
    nodes.delete(first)
    second = nodes.create("/q/i-", b"x", sequential=True)
    third = nodes.create("/q/i-", sequential=True)
    numbers = [int(path.removeprefix("/q/i-")) for path in (first, second, third)]
    assert numbers == sorted(set(numbers))
    assert all(len(path) == len("/q/i-") + 10 for path in (first, second, third))
    assert nodes.read(second).data == b"x"


def test_what_is_ephemeral_goes_with_its_session(new_client: NewClient) -> None:
    leaving, staying = new_client(), new_client()
    mine = leaving.nodes.create("/live/i-", b"me", ephemeral=True, sequential=True)
    leaving.nodes.create("/kept", b"")
    theirs = staying.nodes.create("/live/i-", ephemeral=True, sequential=True)
    assert staying.nodes.read(mine).data == b"me"
    leaving.end()
    wait_until(lambda: staying.nodes.children("/live") == (theirs.removeprefix("/live/"),))
    assert staying.nodes.read("/kept").data == b""


def test_a_data_watch_rings_once_for_a_change_and_not_for_a_read(new_client: NewClient) -> None:
    nodes, other = new_client().nodes, new_client().nodes
    nodes.create("/a", b"0")
    bell, second = CountingWatch(), CountingWatch()
    nodes.read("/a", bell)
    nodes.read("/a")
    assert bell.rings == 0
    other.write("/a", b"1", 0)
    bell.wait()
    nodes.read("/a", second)
    other.write("/a", b"2", 1)
    second.wait()
    assert bell.rings == 1


def test_a_data_watch_rings_for_the_end_and_for_the_beginning(new_client: NewClient) -> None:
    nodes, other = new_client().nodes, new_client().nodes
    nodes.create("/a")
    ended, begun = CountingWatch(), CountingWatch()
    nodes.read("/a", ended)
    other.delete("/a")
    ended.wait()
    with pytest.raises(NotFound):
        nodes.read("/a", begun)
    assert begun.rings == 0
    other.create("/a", b"again")
    begun.wait()


def test_a_watch_of_children_rings_when_one_comes_or_goes(new_client: NewClient) -> None:
    nodes, other = new_client().nodes, new_client().nodes
    other.create("/p/a")
    come, gone = CountingWatch(), CountingWatch()
    nodes.children("/p", come)
    other.create("/p/b")
    come.wait()
    nodes.children("/p", gone)
    other.delete("/p/a")
    gone.wait()


def test_a_watch_of_children_waits_for_a_parent_that_is_missing(new_client: NewClient) -> None:
    nodes, other = new_client().nodes, new_client().nodes
    bell = CountingWatch()
    assert nodes.children("/p", bell) == ()
    other.create("/p")
    bell.wait()


def test_the_same_watch_on_the_same_node_rings_once(new_client: NewClient) -> None:
    nodes, other = new_client().nodes, new_client().nodes
    nodes.create("/a")
    bell, last = CountingWatch(), CountingWatch()
    for _ in range(50):
        nodes.read("/a", bell)
    other.write("/a", b"", 0)
    bell.wait()
    nodes.read("/a", last)
    other.write("/a", b"", 1)
    last.wait()
    assert bell.rings == 1


def test_changes_are_made_together(new_client: NewClient) -> None:
    nodes, other = new_client().nodes, new_client().nodes
    nodes.create("/a", b"1")
    nodes.create("/b")
    bell = CountingWatch()
    other.children("/log", bell)
    for number in range(2):
        changes = (NodeWrite("/a", b"2", number), NextNode("/log/e-", b"told"))
        made = nodes.change_together(changes if number else (*changes, NodeDeletion("/b")))
        assert made == (f"/log/e-{number:010}",)
    assert nodes.read("/a") == Node(b"2", 2)
    assert nodes.children("/log") == ("e-0000000000", "e-0000000001")
    assert "b" not in nodes.children("/")
    bell.wait()


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (NodeWrite("/a", b"2", 1), VersionConflict),
        (NodeWrite("/missing", b"2", 0), NotFound),
        (NodeDeletion("/missing"), NotFound),
        (NodeDeletion("/parent"), VersionConflict),
        (NewNode("/a", b"2"), AlreadyExists),
    ],
)
def test_changes_of_which_one_is_not_possible_are_not_made(
    nodes: NodeStore, change: NodeChange, refusal: type[HeadraceError]
) -> None:
    nodes.create("/a", b"1")
    nodes.create("/parent/child")
    first, last = NextNode("/log/e-", b"told"), NodeWrite("/parent/child", b"3", 0)
    with pytest.raises(refusal):
        nodes.change_together((first, change, last))
    assert nodes.children("/log") == ()
    assert nodes.read("/a") == Node(b"1", 0)
    assert nodes.read("/parent/child") == Node(b"", 0)


def test_a_node_of_a_name_is_made_with_others(nodes: NodeStore) -> None:
    nodes.create("/a", b"1")
    made = nodes.change_together((NewNode("/b/c", b"2"), NodeWrite("/a", b"3", 0), NewNode("/d", b"")))
    assert made == ("/b/c", "/d")
    assert nodes.read("/b/c") == Node(b"2", 0)
    assert nodes.read("/a") == Node(b"3", 1)


def test_a_session_that_is_over_says_so(new_client: NewClient) -> None:
    client = new_client()
    client.nodes.create("/a")
    client.end()
    for ask in (
        lambda: client.nodes.read("/a"),
        lambda: client.nodes.write("/a", b"", 0),
        lambda: client.nodes.create("/b"),
        lambda: client.nodes.delete("/a"),
        lambda: client.nodes.children("/"),
    ):
        with pytest.raises(SessionLost):
            ask()


@pytest.mark.parametrize("name", ["plain", "with space", "ümlaut", "emoji-🚀", "a.b", "x" * 200])
def test_any_name_that_the_layout_makes_is_a_node(nodes: NodeStore, name: str) -> None:
    from mirror.coordination.stores import znodes

    path = znodes.child("/names", name)
    nodes.create(path, b"x")
    assert nodes.read(path).data == b"x"
    assert [znodes.name_of(node) for node in nodes.children("/names")] == [name]


def test_a_large_node_is_stored(nodes: NodeStore) -> None:
    data = bytes(range(256)) * 3_500
    nodes.create("/large", data)
    assert nodes.read("/large").data == data
