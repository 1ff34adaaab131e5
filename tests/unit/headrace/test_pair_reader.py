"""The state of pairs as a service reads it: from the store, else from the copies."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headrace.dr.pairs import PairReader
from headrace.dr.state_store import fresh_state, node_of, store_of
from headrace.settings import HeadraceSettings
from mirror.errors import Unreachable
from mirror.jobs.dr.operation import PairState, write_state
from mirror.jobs.dr.settings import PairSettings
from mirror.model.identifiers import ClusterRef
from tests.fakes.node_store import FakeZooKeeper

PAIR = PairSettings(primary="source", standby="destination", datastreams=["orders"])
FRESH = fresh_state("p/1", PAIR)


class Copies:
    """Copies at the clusters; counts the reads."""

    def __init__(self) -> None:
        self.states: dict[str, PairState | None] = {}
        self.away: set[str] = set()
        self.reads = 0

    def __call__(self, cluster: ClusterRef, name: str) -> PairState | None:
        self.reads += 1
        if cluster in self.away:
            raise Unreachable(f"{cluster} does not respond")
        return self.states.get(cluster)


CLUSTERS: Final = {
    "clusters": {name: {"bootstrap_servers": "127.0.0.1:1"} for name in ("source", "destination")}
}
SHARED: Final = HeadraceSettings.model_validate({**CLUSTERS, "dr": {"p/1": PAIR}, "zookeeper": {}})


def test_the_store_is_read_first() -> None:
    nodes, copies = FakeZooKeeper().session(), Copies()
    nodes.create(node_of("p/1"), write_state(FRESH.with_(active="destination")))
    (view,) = PairReader(SHARED, nodes, copies)()
    assert (view.state and view.state.active, copies.reads) == ("destination", 0)


def test_without_a_state_the_copies_are_read_once() -> None:
    nodes, copies = FakeZooKeeper().session(), Copies()
    copies.states["destination"] = FRESH.with_(active="destination", version=3)
    reader = PairReader(SHARED, nodes, copies)
    for _ in range(2):
        (view,) = reader()
        assert (view.state and view.state.version, view.problem, copies.reads) == (3, "", 2)
    nodes.create(node_of("p/1"), write_state(FRESH.with_(version=4)))
    assert [view.state and view.state.version for view in reader()] == [4]


def test_copies_that_cannot_be_read_are_a_problem_and_are_read_again() -> None:
    nodes, copies = FakeZooKeeper().session(), Copies()
    copies.away.add("destination")
    reader = PairReader(SHARED, nodes, copies)
    (view,) = reader()
    assert view.state == FRESH
    assert "destination" in view.problem
    copies.away.clear()
    assert [view.problem for view in reader()] == [""]


def test_a_damaged_state_is_unknown() -> None:
    nodes = FakeZooKeeper().session()
    nodes.create(node_of("p/1"), b"{")
    (view,) = PairReader(SHARED, nodes, Copies())()
    assert view.state is None
    assert view.document({})["state"] == "unknown"


def test_the_embedded_store_of_pairs_is_read_while_a_command_writes(tmp_path: Path) -> None:
    settings = HeadraceSettings.model_validate(
        {**CLUSTERS, "dr": {"p/1": PAIR}, "mirror": {"state_directory": str(tmp_path)}}
    )
    reader = PairReader(settings, FakeZooKeeper().session(), Copies())
    assert [view.state for view in reader()] == [FRESH]
    with store_of(settings, "test", reads_only=False) as nodes:
        nodes.create(node_of("p/1"), write_state(FRESH.with_(version=2)))
        assert [view.state and view.state.version for view in reader()] == [2]


def test_without_pairs_nothing_is_read() -> None:
    copies = Copies()
    assert (
        PairReader(HeadraceSettings.model_validate(CLUSTERS), FakeZooKeeper().session(), copies)(),
        copies.reads,
    ) == ([], 0)
