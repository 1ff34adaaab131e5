"""Concurrent creations with separate sessions to a real ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Final
from uuid import uuid4

import pytest

from mirror.adapters.settings import ZooKeeperSettings
from mirror.adapters.system_clock import SystemClock
from mirror.adapters.zookeeper import ZooKeeper
from mirror.control.commands import CreateDatastream
from mirror.control.handlers import Control, ControlStores
from mirror.control.owner_quotas import OwnerQuota
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.requests import RequestQueue
from mirror.coordination.stores.root import ensure_root
from mirror.errors import HeadraceError, InvalidRequest, QuotaExceeded
from mirror.model.datastreams.datastream import Datastream
from stack.zookeeper import ZooKeeperServer
from tests.builders import DESTINATION, OPEN_CLUSTERS, SOURCE, a_datastream
from tests.fakes.instances import gate_of
from tests.fakes.topic_admin import FakeTopicAdmin
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.servers

AT_ONCE: Final = 6
ROUNDS: Final = 5
QUOTA: Final = OwnerQuota(datastreams=3, bytes_per_second=60)
RATE: Final = {"headrace.bytes-per-second": "20"}


class Service:
    """Instances with a session each. `topics`: topic names at the source."""

    def __init__(self, sessions: Sequence[ZooKeeper]) -> None:
        self.stored = DefinitionStore(sessions[0])
        self.topics = [f"topic-{number}" for number in range(AT_ONCE)]
        self._controls = [self._control(session) for session in sessions]

    def _control(self, session: ZooKeeper) -> Control:
        source = FakeTopicAdmin(**dict.fromkeys(self.topics, 1))
        clusters, clock = {SOURCE: source, DESTINATION: FakeTopicAdmin()}, SystemClock()
        stores = ControlStores(
            DefinitionStore(session), RequestQueue(session), Membership(session), EventLog(session)
        )
        quotas = {f"team-{number}": QUOTA for number in range(ROUNDS)}
        admission = replace(OPEN_CLUSTERS, quotas=quotas)
        return Control.build(stores, admission, clock, gate_of(session, clusters, clock))

    def create_at_once(self, datastreams: Sequence[Datastream]) -> list[HeadraceError | None]:
        """Start all creations together; return the error of each, or None."""
        start = threading.Barrier(len(datastreams))

        def create(control: Control, one: Datastream) -> HeadraceError | None:
            start.wait(PATIENCE_SECONDS)
            try:
                control.creations.create(CreateDatastream(one))
            except HeadraceError as error:
                return error
            return None

        with ThreadPoolExecutor(len(datastreams)) as pool:
            return list(pool.map(create, self._controls, datastreams))

    def remove_all(self) -> None:
        """Delete all datastreams before the next round."""
        for name in self.stored.names():
            self.stored.remove(name)


@pytest.fixture
def service(zookeeper_server: ZooKeeperServer) -> Iterator[Service]:
    settings = ZooKeeperSettings(servers=zookeeper_server.address, root=f"/races-{uuid4().hex[:10]}")
    with ExitStack() as open_ones:
        sessions = []
        for _ in range(AT_ONCE):
            session = ZooKeeper(settings)
            session.start()
            open_ones.callback(session.stop)
            sessions.append(session)
        ensure_root(sessions[0])
        yield Service(sessions)


def round_of(service: Service, made: Callable[[int, str], Datastream]) -> list[type[HeadraceError]]:
    """Return the error types of the rejected creations."""
    errors = service.create_at_once([made(number, topic) for number, topic in enumerate(service.topics)])
    return [type(error) for error in errors if error is not None]


def members_of(group: str) -> Callable[[int, str], Datastream]:
    """Return a factory of datastreams of one group, each with a different owner."""

    def made(number: int, topic: str) -> Datastream:
        metadata = {"owner": f"owner-{number}", "system.taskPrefix": group}
        return a_datastream(topic, topic, metadata=metadata)

    return made


def owned_by(owner: str) -> Callable[[int, str], Datastream]:
    """Return a factory of datastreams of one owner."""

    def made(_: int, topic: str) -> Datastream:
        return a_datastream(topic, topic, metadata={"owner": owner, **RATE})

    return made


def test_owners_that_join_one_new_group_at_once_leave_it_to_one_of_them(service: Service) -> None:
    for number in range(ROUNDS):
        refused = round_of(service, members_of(f"group-{number}"))
        assert refused == [InvalidRequest] * (AT_ONCE - 1)
        assert len(service.stored.names()) == 1
        service.remove_all()


def test_creations_at_once_use_up_a_quota_and_no_more(service: Service) -> None:
    for number in range(ROUNDS):
        refused = round_of(service, owned_by(f"team-{number}"))
        assert refused == [QuotaExceeded] * (AT_ONCE - QUOTA.datastreams)
        assert len(service.stored.names()) == QUOTA.datastreams
        service.remove_all()
