"""The store on Kafka between fake brokers, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirror.coordination.store.commands import EphemeralNode
from mirror.model.nodes import NewNode, NodeWrite, SessionState
from tests.fakes.shared_store import StoreFleet


@pytest.fixture
def fleet() -> Iterator[StoreFleet]:
    made = StoreFleet()
    yield made
    made.close()


def test_instances_see_the_same_nodes(fleet: StoreFleet) -> None:
    one, two = fleet.instance(), fleet.instance()
    assert one.change(NewNode("/a", b"1")).refusal is None
    two.spawn(two.store.sync())
    assert two.nodes() == {"/a": b"1"}
    assert two.change(NodeWrite("/a", b"2", 0)).answers == (1,)
    assert one.change(NodeWrite("/a", b"3", 0)).refusal is not None
    assert one.nodes() == {"/a": b"2"}
    assert one.states == [SessionState.CONNECTED]


def test_a_killed_instance_is_ended_by_the_others_after_its_timeout(fleet: StoreFleet) -> None:
    one, two, three = (fleet.instance() for _ in range(3))
    one.change(EphemeralNode("/live/i-", b"", True))
    killed_at = fleet.clock.monotonic()
    one.kill()
    fleet.run_until(lambda: one.session not in two.store.replica.state.sessions, "its end")
    assert fleet.clock.monotonic() - killed_at < 6.0 + 1.0
    fleet.run(1.0)
    assert "/live/i-0000000000" not in {**two.nodes(), **three.nodes()}
    assert two.is_connected
    assert three.is_connected
