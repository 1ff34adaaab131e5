"""Faults of a cluster of three brokers, and their undoing."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from confluent_kafka import ElectionType

from stack.kafka import KafkaCluster, KafkaNode
from stack.process.parallel import for_each
from tests.chaos.clusters.administration import Administration
from tests.patience import wait_until

_BLOCK: Final = bytes(2**20)
_IN_SYNC: Final = 2
"""`min.insync.replicas` of the topics before and after each fault."""


class Kind(StrEnum):
    """Kinds of faults."""

    ROLLING_RESTART = "rolling restart"
    KILL = "broker killed"
    FREEZE = "broker frozen"
    TWO_DOWN = "two of three down"
    REASSIGNMENT = "reassignment"
    MIN_INSYNC = "min.insync unmet"
    QUOTAS = "client quotas"
    DISK_FULL = "disk full"
    UNCLEAN = "unclean election"


class NotCarriedOut(Exception):
    """The fault is impossible on this machine."""


@dataclass(frozen=True)
class Victim:
    """A cluster that gets a fault.

    `seconds`: duration of the fault, for kinds that have one. `quota`: bytes per second of each client at
    each broker. `quiet`: context without any writes by the mirror, of which all earlier ones have been read.
    """

    cluster: KafkaCluster
    admin: Administration
    seconds: float
    quota: float
    quiet: Callable[[], AbstractContextManager[None]]


def inflict(kind: Kind, victim: Victim) -> None:
    """Carry out a fault and undo it; return when all replicas are in sync. Raises NotCarriedOut."""
    _ACTS[kind](victim)
    victim.admin.wait_in_sync()


def _rolling_restart(victim: Victim) -> None:
    for node in victim.cluster.nodes:
        node.stop()
        node.start()
        victim.admin.wait_in_sync()


def _kill(victim: Victim) -> None:
    node = victim.cluster.nodes[0]
    node.kill()
    time.sleep(victim.seconds)
    node.start()


def _freeze(victim: Victim) -> None:
    node = victim.cluster.nodes[1]
    node.suspend()
    try:
        time.sleep(victim.seconds)
    finally:
        node.resume()


def _kill_two(victim: Victim) -> None:
    nodes = victim.cluster.nodes[1:]
    for_each(nodes, KafkaNode.kill)
    time.sleep(victim.seconds)
    for_each(nodes, KafkaNode.launch)
    for_each(nodes, KafkaNode.wait_until_ready)


def _reassign(victim: Victim) -> None:
    """Take the leader's replica from each partition, then place three replicas in another order."""
    victim.admin.reassign(rotation=1, replicas=2)
    time.sleep(victim.seconds)
    victim.admin.reassign(rotation=2, replicas=3)
    victim.admin.wait_in_sync()
    victim.admin.elect(ElectionType.PREFERRED, [node.node_id for node in victim.cluster.nodes])


def _require_every_replica(victim: Victim) -> None:
    """Require three replicas in sync while one broker is stopped."""
    node = victim.cluster.nodes[2]
    victim.admin.require(in_sync=len(victim.cluster.nodes))
    node.stop()
    time.sleep(victim.seconds)
    node.start()
    victim.admin.wait_in_sync()
    victim.admin.require(in_sync=_IN_SYNC)


def _throttle(victim: Victim) -> None:
    with victim.admin.throttled(victim.quota):
        time.sleep(victim.seconds)


def _fill_disk(victim: Victim) -> None:
    """Fill the file system of a broker until it stops."""
    node = victim.cluster.nodes[2]
    if not node.folder.is_mount():
        raise NotCarriedOut("no broker has a file system of its own: to mount one, the process must be root")
    filler = node.folder / "filler"
    _fill(filler)
    try:
        wait_until(lambda: not node.is_alive(), f"{node.name} stops without free space")
        time.sleep(victim.seconds)
    finally:
        filler.unlink()
    node.start()


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(_BLOCK)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def _elect_uncleanly(victim: Victim) -> None:
    """Let one broker alone acknowledge records, kill it, and elect one that lacks these records.

    The third broker only keeps its vote: two of the three controllers must be alive to remove a replica from
    those in sync, and to elect.
    """
    last, other, _ = victim.cluster.nodes
    admin = victim.admin
    admin.require(in_sync=1)
    admin.keep_only([last.node_id, other.node_id])
    other.stop()
    admin.wait_for_replicas([last.node_id])
    time.sleep(victim.seconds)
    with victim.quiet():
        last.kill()
    other.launch()
    admin.elect(ElectionType.UNCLEAN, [other.node_id])
    last.start()
    other.wait_until_ready()
    admin.reassign(rotation=0, replicas=len(victim.cluster.nodes))
    admin.wait_in_sync()
    admin.require(in_sync=_IN_SYNC)
    admin.elect(ElectionType.PREFERRED, [node.node_id for node in victim.cluster.nodes])


_ACTS: Final[Mapping[Kind, Callable[[Victim], None]]] = {
    Kind.ROLLING_RESTART: _rolling_restart,
    Kind.KILL: _kill,
    Kind.FREEZE: _freeze,
    Kind.TWO_DOWN: _kill_two,
    Kind.REASSIGNMENT: _reassign,
    Kind.MIN_INSYNC: _require_every_replica,
    Kind.QUOTAS: _throttle,
    Kind.DISK_FULL: _fill_disk,
    Kind.UNCLEAN: _elect_uncleanly,
}
