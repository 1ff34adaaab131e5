"""Test the order in which the parts of an instance start and stop, also after a failed start."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.root import ensure_root
from mirror.errors import NewerFormat, Unreachable
from mirror.instance.service import Instance
from tests.fakes.instances import FollowerRig, LeaderRig
from tests.fakes.node_store import FakeSession, FakeZooKeeper
from tests.patience import wait_until


class Session:
    """A session that records its start and stop."""

    def __init__(self, nodes: FakeSession, failure: Exception | None = None) -> None:
        self._nodes = nodes
        self._failure = failure
        self.said: list[str] = []

    def start(self) -> None:
        self.said.append("start")
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        self.said.append("stop")
        self._nodes.expire()


class ServiceRig:
    def __init__(self, failure: Exception | None = None, prepare: Callable[[], None] | None = None) -> None:
        self.server = FakeZooKeeper()
        self.follower = FollowerRig(self.server)
        self.leader = LeaderRig(self.follower.session, {})
        self.follower.on_joined = self.leader.leader.joined
        self.session = Session(self.follower.session, failure)
        self.instance = Instance(
            self.session,
            prepare or (lambda: ensure_root(self.follower.session)),
            self.follower.follower,
            self.leader.leader,
            self.follower.health,
        )


def test_it_starts_leads_and_leaves_nothing_behind() -> None:
    whole = ServiceRig()
    whole.instance.start()
    wait_until(lambda: whole.leader.leader.is_leading)
    whole.instance.stop(5.0)
    whole.instance.stop(5.0)
    assert whole.session.said == ["start", "stop"]
    assert whole.follower.workers.stopped
    assert Membership(whole.server.session()).live() == ()
    assert not [path for path in whole.server.dump() if path.startswith("/holdings/")]


def test_without_zookeeper_nothing_is_started() -> None:
    whole = ServiceRig(failure=Unreachable("no answer"))
    with pytest.raises(Unreachable):
        whole.instance.start()
    assert whole.session.said == ["start"]
    assert not whole.follower.session.log


def test_a_newer_root_ends_the_session_that_was_begun() -> None:
    def refuse() -> None:
        raise NewerFormat("too new")

    whole = ServiceRig(prepare=refuse)
    with pytest.raises(NewerFormat):
        whole.instance.start()
    assert whole.session.said == ["start", "stop"]
    assert not whole.follower.session.log
