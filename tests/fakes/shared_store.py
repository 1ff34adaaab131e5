"""Instances that share the store on Kafka, each on its own loop, with a fake cluster, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from mirror.adapters.kafka_store.session import coordination_cluster
from mirror.adapters.kafka_store.store import KafkaStore, StoreEvents, StoreOptions
from mirror.adapters.settings import SNAPSHOT_SUFFIX
from mirror.client.access import ClusterAccess, endpoints
from mirror.client.event_loop import Loop, Promise
from mirror.coordination.store.commands import Change, Operation, Result
from mirror.coordination.store.tree import walk
from mirror.errors import HeadraceError
from mirror.model.nodes import SessionState
from tests.fakes.broker.cluster import FakeCluster
from tests.fakes.broker.log import PartitionLog
from tests.fakes.broker.memory import Network
from tests.fakes.broker.virtual import VirtualSelector
from tests.fakes.clock import ManualClock

T = TypeVar("T")
TOPIC: Final = "coordination"
SNAPSHOTS: Final = f"{TOPIC}{SNAPSHOT_SUFFIX}"
_STEP_SECONDS: Final = 0.02
_PATIENCE_SECONDS: Final = 300.0


class StoreInstance:
    """One process. `states` and `troubles`: what it reported."""

    def __init__(self, fleet: StoreFleet, least_growth: int, timeout_seconds: float) -> None:
        self._fleet = fleet
        self.loop = Loop(fleet.clock, VirtualSelector(fleet.clock, [fleet.cluster]))
        self.loop.new_socket = fleet.network.socket
        access = ClusterAccess(endpoints(fleet.cluster.address))
        cluster = coordination_cluster(self.loop, "coordination", access, timeout_seconds)
        self.states: list[SessionState] = []
        self.troubles: list[HeadraceError | None] = []
        options = StoreOptions(TOPIC, timeout_seconds, least_growth=least_growth)
        events = StoreEvents(self.states.append, self.troubles.append)
        self.store = KafkaStore(cluster, options, events)
        self.is_frozen = self._is_dead = False
        self.store.start()

    @property
    def is_connected(self) -> bool:
        """Return whether it has a session."""
        return self.store.state is SessionState.CONNECTED

    @property
    def session(self) -> str:
        """Name of its session."""
        return self.store.identity.name

    def nodes(self) -> dict[str, bytes]:
        """Return the nodes that it sees."""
        return {path: node.data for path, node in walk(self.store.replica.state.root)}

    def begin(self, *operations: Operation) -> Promise[Result]:
        """Submit a change and return the promise of its result."""
        identity = self.store.identity
        return self.store.submit(Change(identity.name, next(identity.requests), operations))

    def change(self, *operations: Operation) -> Result:
        """Submit a change and run until its result is known."""
        promise = self.begin(*operations)
        self._fleet.run_until(lambda: promise.is_done, "the result of a change")
        return promise.result()

    def spawn(self, steps: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        promise = self.loop.spawn(steps)
        promise.is_awaited = True
        self._fleet.run_until(lambda: promise.is_done, "the end of a coroutine")
        return promise.result()

    def kill(self) -> None:
        """End the process at once: its session remains until others end it. Idempotent."""
        if not self._is_dead:
            self.is_frozen = self._is_dead = True
            self.store.close()
            self.loop.close()


class StoreFleet:
    """A cluster and its instances. Every step of time runs all that are not frozen."""

    def __init__(self, brokers: int = 3) -> None:
        self.clock = ManualClock()
        self.network = Network()
        self.cluster = FakeCluster("coordination", brokers, self.clock, network=self.network)
        self.instances: list[StoreInstance] = []

    def instance(self, least_growth: int = 1 << 30, timeout_seconds: float = 6.0) -> StoreInstance:
        """Start an instance and wait for its session."""
        one = self.launch(least_growth, timeout_seconds)
        self.run_until(lambda: one.is_connected, "a session")
        return one

    def launch(self, least_growth: int = 1 << 30, timeout_seconds: float = 6.0) -> StoreInstance:
        """Start an instance."""
        self.instances.append(StoreInstance(self, least_growth, timeout_seconds))
        return self.instances[-1]

    def log(self) -> PartitionLog:
        """Return the log of commands."""
        return self.cluster.log(TOPIC)

    @property
    def snapshots(self) -> PartitionLog:
        """Log of the topic of snapshots."""
        return self.cluster.log(SNAPSHOTS)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            self.step()

    def run_until(
        self, condition: Callable[[], object], what: str, seconds: float = _PATIENCE_SECONDS
    ) -> None:
        """Let time pass until the condition holds."""
        until = self.clock.monotonic() + seconds
        while not condition():
            assert self.clock.monotonic() < until, f"timed out: {what}"
            self.step()

    def step(self) -> None:
        """Run every instance, and let a moment pass."""
        moment = self.clock.monotonic()
        for one in self.instances:
            if not one.is_frozen:
                one.loop.run_once(0.0)
        running = [one for one in self.instances if not one.is_frozen]
        if running:
            running[0].loop.run_once(max(moment + _STEP_SECONDS - self.clock.monotonic(), 0.0))
        else:
            self.clock.advance(_STEP_SECONDS)
            self.cluster.poll()

    def close(self) -> None:
        """End everything."""
        for one in self.instances:
            one.kill()
        self.cluster.close()
