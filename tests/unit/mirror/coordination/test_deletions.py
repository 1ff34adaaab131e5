"""Test records of deletions, which distinguish deleted datastreams from lost definitions."""

from __future__ import annotations

from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.deletion_record import BUCKETS, MOST_OF_BUCKET, Deletions
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName
from tests.builders import a_datastream
from tests.fakes.node_store import FakeSession, FakeZooKeeper


def created(name: str, moment: int) -> Datastream:
    return a_datastream(name, metadata={"owner": "tests", "system.creation.ms": str(moment)})


def delete(nodes: FakeSession, name: str, moment: int) -> None:
    nodes.change_together(Deletions(nodes).changes(DatastreamName(name), moment))


def test_a_deletion_counts_for_what_was_created_before_it() -> None:
    nodes = FakeZooKeeper().session()
    delete(nodes, "one", 20)
    deletions = Deletions(nodes)
    found = [deletions.of([created("one", moment)]) for moment in (10, 20, 21)]
    assert found == [{"one"}, {"one"}, set()]
    delete(nodes, "one", 10)
    assert deletions.of([created("one", 20), created("two", 20)]) == {"one"}


def test_a_definition_that_is_removed_is_recorded_whatever_its_node_holds() -> None:
    nodes = FakeZooKeeper().session()
    store, deletions = DefinitionStore(nodes), Deletions(nodes)
    good, damaged = created("good", 20), created("damaged", 20)
    for one in (good, damaged):
        store.create(one)
    nodes.write(f"{znodes.DATASTREAMS}/damaged", b"{", 0)
    store.remove(good.name, now_ms=30)
    store.remove(damaged.name, now_ms=30)
    assert deletions.of([good, damaged]) == {"good", "damaged"}
    assert deletions.of([created("good", 21), created("damaged", 31)]) == set()


def test_a_datastream_that_is_created_again_by_a_slower_clock_is_not_deleted() -> None:
    nodes = FakeZooKeeper().session()
    store, deletions = DefinitionStore(nodes), Deletions(nodes)
    former = created("one", 600_000)
    store.create(former)
    store.remove(former.name)
    again = store.create(created("one", 60_000)).datastream
    assert store.get(again.name).datastream == again
    assert deletions.of([former]) == {"one"}
    assert deletions.of([again]) == set()
    assert deletions.guard(again) is not None, "it can be restored if the store loses it"


def test_records_do_not_pile_up() -> None:
    nodes = FakeZooKeeper().session()
    for number in range(3 * BUCKETS):
        delete(nodes, f"d-{number}", 1)
    assert len(nodes.children(znodes.DELETED)) <= BUCKETS


def test_a_node_keeps_the_newest_records() -> None:
    nodes = FakeZooKeeper().session()
    delete(nodes, "one", 1)
    (folder,) = nodes.children(znodes.DELETED)
    path, full = f"{znodes.DELETED}/{folder}", [(f"e-{number}", 1) for number in range(MOST_OF_BUCKET)]
    nodes.write(path, node_codec.encode({"deleted": full}), 0)
    delete(nodes, "one", 1)
    kept = [name for name, _ in node_codec.decode(nodes.read(path).data, path)["deleted"]]
    assert kept == [*(name for name, _ in full[1:]), "one"]


def test_a_damaged_record_is_none_and_is_replaced() -> None:
    nodes = FakeZooKeeper().session()
    delete(nodes, "one", 1)
    (folder,) = nodes.children(znodes.DELETED)
    path = f"{znodes.DELETED}/{folder}"
    for data in (b"{", b"[]", b'{"deleted": 1}', b'{"deleted": [["one", "x"]]}', b'{"deleted": [[1]]}'):
        nodes.write(path, data, nodes.read(path).version)
        assert Deletions(nodes).of([created("one", 1)]) == set()
    delete(nodes, "one", 1)
    assert Deletions(nodes).of([created("one", 1)]) == {"one"}
