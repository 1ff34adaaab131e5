"""Version and replication timeout of produce requests."""

from __future__ import annotations

from typing import Final

from mirror.client.connection import Connection
from mirror.protocol import produce

_BROKER_SHARE: Final = 0.8
"""Fraction of the client's timeout that the broker may use for replication."""
_REPLICATION_SECONDS: Final = 4.0
"""Upper limit of the replication timeout. Partitions share requests, so the slowest partition delays the
response for all of them by up to this time; afterwards that partition gets separate requests. The limit is
shorter than the time after which a broker counts as silent."""
TRANSACTION_FEATURE: Final = "transaction.version"
IMPLICIT_LEVEL: Final = 2


def replication_ms(timeout_seconds: float) -> int:
    """Return the replication timeout in a produce request, given the total timeout."""
    return int(min(timeout_seconds * _BROKER_SHARE, _REPLICATION_SECONDS) * 1000)


def produce_version(connection: Connection, *, in_transaction: bool) -> int:
    """Return the common version of Produce; before KIP-890, one that adds no partition to a transaction."""
    version = connection.version_of(produce.API, produce.VERSIONS)
    if in_transaction and not has_implicit_transactions(connection):
        version = min(version, produce.IMPLICIT_TRANSACTION_FROM - 1)
    return version


def has_implicit_transactions(connection: Connection) -> bool:
    """Return whether the cluster has finalised part 2 of KIP-890.

    If finalised, Produce requests add partitions to a transaction, and every transaction has its own epoch.
    """
    return connection.features.features.get(TRANSACTION_FEATURE, 0) >= IMPLICIT_LEVEL
