"""Test the root znode of the service and its format version."""

from __future__ import annotations

import pytest

from mirror.coordination.stores import znodes
from mirror.coordination.stores.root import ensure_root
from mirror.errors import CorruptData, NewerFormat
from tests.fakes.lockstep import Lockstep
from tests.fakes.node_store import FakeZooKeeper


def test_the_first_instance_writes_the_format_and_the_second_accepts_it() -> None:
    server = FakeZooKeeper()
    ensure_root(server.session())
    ensure_root(server.session())
    assert server.dump() == {"/version": str(znodes.FORMAT).encode()}


def test_two_instances_may_be_first_at_once() -> None:
    server = FakeZooKeeper()
    one, two, lockstep = server.session(), server.session(), Lockstep(["one", "two", "one", "two"])
    one.script, two.script = lockstep.gate("one"), lockstep.gate("two")
    outcomes = lockstep.run({"one": lambda: ensure_root(one), "two": lambda: ensure_root(two)})
    assert outcomes == {"one": None, "two": None}


def test_the_state_of_a_newer_version_is_left_alone() -> None:
    session = FakeZooKeeper().session()
    session.create("/version", str(znodes.FORMAT + 1).encode())
    with pytest.raises(NewerFormat, match="upgrade"):
        ensure_root(session)


@pytest.mark.parametrize("data", [b"", b"one", b"-1"])
def test_a_root_that_is_not_ours_is_refused(data: bytes) -> None:
    session = FakeZooKeeper().session()
    session.create("/version", data)
    with pytest.raises(CorruptData, match="/version"):
        ensure_root(session)
