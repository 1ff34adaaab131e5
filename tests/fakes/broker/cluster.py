"""Cluster of fake brokers in this process, modelled on franz-go's kfake.

The brokers listen on the loopback interface, so any client works against them unchanged, or in a network in
memory (`memory`). Methods here change the cluster; `faults` change the handling of requests. A test that owns
the client's loop calls `poll`, or uses `virtual`; otherwise `running` serves from a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from mirror.adapters.system_clock import SystemClock
from mirror.ports import Clock
from tests.fakes.broker import batches
from tests.fakes.broker.batches import Content
from tests.fakes.broker.log import PartitionLog
from tests.fakes.broker.memory import Network
from tests.fakes.broker.server import Server
from tests.fakes.broker.state import ClusterState
from tests.fakes.broker.topics import Partition

_LONGEST_WAIT: Final = 0.05


class FakeCluster(ClusterState):
    """Fake cluster. `racks`: rack of each broker, by its number from 1."""

    def __init__(
        self,
        name: str = "fake",
        brokers: int = 1,
        clock: Clock | None = None,
        *,
        transaction_level: int = 2,
        racks: Sequence[str] = (),
        network: Network | None = None,
    ) -> None:
        super().__init__(name, clock or SystemClock(), transaction_level=transaction_level)
        self.server = Server(self, network)
        self.lock = threading.RLock()
        """Held while requests are handled. A test that changes the cluster beside a thread must take it."""
        for number in range(1, brokers + 1):
            self.server.listen(number, racks[number - 1] if racks else None)

    @property
    def address(self) -> str:
        """Bootstrap servers."""
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    def poll(self) -> bool:
        """Handle pending requests; return whether there were any."""
        return self.server.poll()

    def partition(self, topic: str, number: int = 0) -> Partition:
        """Return an existing partition."""
        return self.topics[topic].partitions[number]

    def log(self, topic: str, number: int = 0) -> PartitionLog:
        """Return the log of a partition."""
        return self.partition(topic, number).log

    def write(self, topic: str, records: Sequence[Content], number: int = 0, *, codec: int = 0) -> None:
        """Append one batch without a client."""
        self.append(topic, batches.build(records, codec=codec), number)

    def append(self, topic: str, data: bytes, number: int = 0) -> None:
        """Append a batch unchanged and without validation."""
        partition = self.partition(topic, number)
        partition.log.append(data, partition.epoch, self.clock.now_ms())
        self.server.changed()

    def write_in_transaction(
        self, topic: str, records: Sequence[Content], number: int = 0, *, commit: bool | None = None
    ) -> Callable[..., None]:
        """Append one batch in a transaction of a new producer; `commit` None leaves it open.

        Returns the function that ends it: `end(commit=…)`.
        """
        producer = self.coordinator.new_producer()
        self.append(topic, batches.build(records, producer=(producer, 0, 0), transactional=True), number)

        def end(*, commit: bool) -> None:
            kind = batches.COMMIT if commit else batches.ABORT
            self.append(topic, batches.marker(producer, 0, kind, self.clock.now_ms()), number)

        if commit is not None:
            end(commit=commit)
        return end

    def take_down(self, node: int) -> None:
        """Stop a broker; its connections break and new ones are refused."""
        self.stop_broker(node)
        self.server.drop_connections(node)
        self.server.changed()

    def bring_up(self, node: int) -> None:
        """Restart a broker on the same port."""
        self.start_broker(node)
        self.server.changed()

    def freeze(self, node: int) -> None:
        """Freeze a broker: it accepts connections and requests but sends no responses."""
        self.server.set_frozen(node, frozen=True)

    def thaw(self, node: int) -> None:
        """Unfreeze a broker; it handles the pending requests."""
        self.server.set_frozen(node, frozen=False)

    def close(self) -> None:
        """Close every socket."""
        self.server.close()


@contextmanager
def running(cluster: FakeCluster) -> Iterator[FakeCluster]:
    """Serve from a thread and close the cluster at the end. Raises exceptions of its handlers."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def serve() -> None:
        try:
            while not stop.is_set():
                cluster.server.wait(_LONGEST_WAIT)
                with cluster.lock:
                    cluster.poll()
        except BaseException as error:  # noqa: BLE001 - raised by the thread that joins this one
            failures.append(error)

    thread = threading.Thread(target=serve, name=f"fake cluster {cluster.name}")
    thread.start()
    try:
        yield cluster
    finally:
        stop.set()
        cluster.server.wake()
        thread.join()
        cluster.close()
        if failures:
            raise failures[0]
