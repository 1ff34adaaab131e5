"""Faults of two clusters of three brokers, one after another, with a comparison of every record after each.

Each fault has topics of its own. Producers write to the source with acknowledgements of all replicas in
sync; other clients read both clusters meanwhile. At the destination another producer writes to a second topic
with the same replicas, to show for how long that cluster serves no client.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from mirror.model.datastreams.policy import CopyPolicy, Guarantee, OnLoss
from stack.errors import NotInTime
from stack.kafka import KafkaCluster, KafkaNode, NodePorts
from stack.process.parallel import for_each
from stack.process.wait import wait_until
from stack.server import Jvm
from tests.chaos.clusters.administration import Administration
from tests.chaos.clusters.faults import Kind, NotCarriedOut, Victim, inflict
from tests.chaos.clusters.mirror import Mirror
from tests.chaos.service.arrivals import Arrivals, Place
from tests.chaos.service.comparison import Findings, compare
from tests.chaos.service.reader import read_topic
from tests.chaos.service.tenants import Style
from tests.chaos.service.traffic import BACKDATED_SECONDS, Writer
from tests.patience import PATIENCE_SECONDS
from tests.shared_servers import BROKER_PROPERTIES

PARTITIONS: Final = 6
BROKERS: Final = 3
_JVM: Final = Jvm(heap_mib=256, quick_start=True)
_PROPERTIES: Final = {
    **BROKER_PROPERTIES,
    "min.insync.replicas": 2,
    # By default a broker exits after a minute if the controllers of a busy machine have not elected a leader.
    "initial.broker.registration.timeout.ms": 600_000,
}
_SOURCE, _DESTINATION = "source", "destination"
SIDES: Final = (_SOURCE, _DESTINATION)
_CONTROL_RATE: Final = 10.0
_MOMENT_SECONDS: Final = 1.0
_QUOTA_SHARE: Final = 0.25
_RECORD_BYTES: Final = 150
"""Approximate mean size of a record of `Writer`."""


@dataclass(frozen=True)
class Order:
    """Parameters of a run.

    `rate`: records per second. `before`: seconds between the first records and a fault. `seconds`: duration
    of a fault, for the kinds that have one. `patience`: maximum seconds of each wait.
    """

    rate: float = 500.0
    before: float = 3.0
    seconds: float = 10.0
    patience: float = PATIENCE_SECONDS
    guarantee: Guarantee = Guarantee.EFFECTIVELY_ONCE

    @property
    def quota(self) -> float:
        """Bytes per second of a client at one broker, a part of the traffic."""
        return self.rate * _RECORD_BYTES / BROKERS * _QUOTA_SHARE


@dataclass
class Row:
    """Result of one fault. Times are in seconds."""

    kind: Kind
    side: str
    seconds: float = 0.0
    """From the beginning of the fault until all replicas were in sync again."""
    own_silence: float = 0.0
    """Longest time without a record of another client, on one partition of the cluster with the fault."""
    silence: float = 0.0
    """Longest time without a copy at the destination, on one partition."""
    halted: float = 0.0
    """Part of `silence` for which the schedule itself halted the mirror."""
    caught_up: float = 0.0
    """From the end of the fault until every partition had a copy of a later record."""
    own_loss: int = 0
    """Records that the cluster itself has lost: the source after it acknowledged them, the destination after
    another client read them."""
    findings: Findings = field(default_factory=Findings)
    """Comparison of the destination with the source. `lost` does not include `own_loss`, and `aborted` are
    copies of records that the source lost later."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Reasons that the lanes reported, with the number of reports."""
    gaps: list[str] = field(default_factory=list)
    """Losses that the lanes recorded."""
    failure: str = ""
    """Reason why the row has no result."""

    @property
    def violations(self) -> list[str]:
        """Sentences; empty if every guarantee was met."""
        if self.failure:
            return [self.failure]
        found = {**self.findings.violations(may_repeat=False)}
        found.pop("aborted", None)
        sentences = [f"{count} records {what.replace('_', ' ')}" for what, count in found.items()]
        if self.own_loss and not self.gaps:
            sentences.append("no lane recorded the loss of the cluster")
        if self.kind is not Kind.UNCLEAN and self.own_loss:
            sentences.append(f"the cluster has lost {self.own_loss} records")
        return sentences


class ClusterFaults:
    """Two clusters and readers of both, ended by `stop`; each fault has a mirror and topics of its own."""

    def __init__(self, folder: Path, order: Order) -> None:
        self._order = order
        self.clusters = {
            name: KafkaCluster(
                name,
                folder / name,
                [NodePorts.free() for _ in range(BROKERS)],
                jvm=_JVM,
                properties=_PROPERTIES,
            )
            for name in SIDES
        }
        self._addresses = {name: cluster.address for name, cluster in self.clusters.items()}
        self._readers = {name: Arrivals(address) for name, address in self._addresses.items()}

    def start(self) -> None:
        """Start everything."""
        nodes = [node for cluster in self.clusters.values() for node in cluster.nodes]
        for_each(nodes, KafkaNode.launch)
        for_each(nodes, lambda node: node.wait_until_ready(PATIENCE_SECONDS))
        for reader in self._readers.values():
            reader.start()

    def stop(self) -> None:
        """End everything at once."""
        for reader in self._readers.values():
            reader.stop()
        for_each(self.clusters.values(), KafkaCluster.kill)

    def carry_out(self, kind: Kind, side: str) -> Row:
        """Carry out one fault, and compare every record after it."""
        topic = f"{kind}-{side}".replace(" ", "-")
        control = f"{topic}.control"
        topics = {_SOURCE: [topic], _DESTINATION: [topic, control]}
        admins = {name: Administration(self.clusters[name], topics[name]) for name in SIDES}
        for name in SIDES:
            admins[name].create(PARTITIONS)
            self._readers[name].watch(frozenset(topics[name]))
        mirror = Mirror(*(self._addresses[name] for name in SIDES))
        trial = _Trial(self._order, self._readers, self._addresses, mirror, topic)
        is_written_by_mirror = side == _DESTINATION
        victim = Victim(
            self.clusters[side],
            admins[side],
            self._order.seconds,
            self._order.quota,
            trial.without_writes if is_written_by_mirror else nullcontext,
        )
        row = Row(kind, side)
        try:
            mirror.start()
            trial.begin(OnLoss.CONTINUE if kind is Kind.UNCLEAN else OnLoss.HALT, control)
            trial.measure(row, victim, control if is_written_by_mirror else topic)
            trial.compare(row)
        except NotCarriedOut as error:
            row.failure = str(error)
        except (NotInTime, KafkaException) as error:
            row.failure = f"{error}; {mirror.describe()}"
            row.reasons, row.gaps = mirror.reasons(), mirror.gaps()
        finally:
            trial.end()
            mirror.stop()
        return row


class _Trial:
    """Writers, readers and the mirror around one fault. `topic`: topic that is copied."""

    def __init__(
        self,
        order: Order,
        readers: Mapping[str, Arrivals],
        addresses: Mapping[str, str],
        mirror: Mirror,
        topic: str,
    ) -> None:
        self._order, self._readers, self._addresses = order, readers, addresses
        self._mirror, self._topic = mirror, topic
        self._writers: list[Writer] = []
        self._halted = 0.0

    def begin(self, on_loss: OnLoss, control: str) -> None:
        """Copy and write, until records have been copied for a while. `control`: topic of the destination
        for another producer."""
        policy = CopyPolicy(on_loss=on_loss, guarantee=self._order.guarantee)
        self._mirror.copy(self._topic, PARTITIONS, policy)
        for name, topic, rate in (
            (_SOURCE, self._topic, self._order.rate / PARTITIONS),
            (_DESTINATION, control, _CONTROL_RATE),
        ):
            self._writers.append(Writer(self._addresses[name], topic, PARTITIONS, Style(), rate))
            self._writers[-1].start()
        self._wait_for_copies(0.0)
        time.sleep(self._order.before)

    def end(self) -> None:
        """Stop the writers at once."""
        for writer in self._writers:
            writer.give_up()

    def measure(self, row: Row, victim: Victim, own: str) -> None:
        """Carry out the fault, wait until records flow again, and note the times.

        `own`: topic of the cluster that another client writes.
        """
        began = time.monotonic()
        inflict(row.kind, victim)
        ended = time.monotonic()
        row.seconds = ended - began
        self._wait_for_copies(ended)
        caught_up = time.monotonic()
        row.caught_up = caught_up - ended
        reader = self._readers[row.side]
        self._wait(
            lambda: all(reader.newest((own, number)) > ended for number in range(PARTITIONS)),
            f"records of {own} are read",
        )
        row.own_silence = _silence(reader, own, began, caught_up)
        row.silence = _silence(self._readers[_DESTINATION], self._topic, began, caught_up)
        row.halted = self._halted

    def compare(self, row: Row) -> None:
        """End writing, wait until every record has arrived, and compare."""
        for writer in self._writers:
            if not writer.finish(self._order.patience):
                raise NotInTime(f"records of {writer.topic} are not acknowledged")
        topic, acknowledged = self._topic, self._writers[0].acknowledged
        reader, nobody = self._readers[_DESTINATION], threading.Event()
        truth = read_topic(self._addresses[_SOURCE], topic, PARTITIONS, nobody)
        self._wait(
            lambda: all(reader.seen((topic, number)) >= set(truth[number]) for number in range(PARTITIONS)),
            f"every record of {topic} arrives",
        )
        copies = read_topic(self._addresses[_DESTINATION], topic, PARTITIONS, nobody)
        for number in range(PARTITIONS):
            gone = Counter(acknowledged.get(number, [])) - Counter(truth[number])
            vanished = reader.seen((topic, number)) - set(copies[number])
            found = compare([truth[number]], copies[number], gone)
            row.own_loss += gone.total() if row.side == _SOURCE else len(vanished)
            row.findings += replace(found, lost=found.lost - len(vanished & set(truth[number])))
        row.reasons, row.gaps = self._mirror.reasons(), self._mirror.gaps()

    def _wait_for_copies(self, since: float) -> None:
        """Wait until each partition of the destination gets records that were written a moment before."""
        reader = self._readers[_DESTINATION]

        def is_flowing(place: Place) -> bool:
            now = time.monotonic()
            age = reader.oldest_of(place, max(since, now - _MOMENT_SECONDS), now)
            return age is not None and age < BACKDATED_SECONDS + _MOMENT_SECONDS

        self._wait(
            lambda: all(is_flowing((self._topic, number)) for number in range(PARTITIONS)),
            f"new records of {self._topic} are copied",
        )

    @contextmanager
    def without_writes(self) -> Iterator[None]:
        """Halt the mirror, and wait until another client has read what it has written."""
        reader = self._readers[_DESTINATION]
        with self._mirror.halted():
            began = time.monotonic()
            self._wait(
                lambda: all(
                    reader.newest((self._topic, number)) < time.monotonic() - _MOMENT_SECONDS
                    for number in range(PARTITIONS)
                ),
                f"no copies of {self._topic} arrive",
            )
            yield
            self._halted += time.monotonic() - began

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition. Raises the failure of the mirror or of a reader meanwhile."""

        def holds() -> bool:
            for failure in (self._mirror.failure, *(reader.failure for reader in self._readers.values())):
                if failure is not None:
                    raise failure
            return condition()

        wait_until(holds, self._order.patience, what)


def _silence(reader: Arrivals, topic: str, since: float, until: float) -> float:
    return max(reader.longest_silence_of((topic, number), since, until) for number in range(PARTITIONS))
