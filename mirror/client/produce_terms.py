"""The terms of produce requests: their version, and how long a broker may wait for replicas."""

from __future__ import annotations

from typing import Final

from mirror.client.connection import Connection
from mirror.protocol import produce

_BROKER_SHARE: Final = 0.8
"""Part of our patience that the broker is given to replicate."""
_REPLICATION_SECONDS: Final = 4.0
"""The most that it is given. Partitions share requests, and the slowest of them holds up the answer for all
until this time is over; then it is sent alone. Shorter than what counts as the silence of a broker."""
TRANSACTION_FEATURE: Final = "transaction.version"
IMPLICIT_LEVEL: Final = 2


def replication_ms(timeout_seconds: float) -> int:
    """How long the broker may wait for replicas before it answers, of the time that we give it in all."""
    return int(min(timeout_seconds * _BROKER_SHARE, _REPLICATION_SECONDS) * 1000)


def produce_version(connection: Connection, *, in_transaction: bool) -> int:
    """Of Produce: by topic id where that is possible; in a transaction as its protocol demands."""
    version = connection.version_of(produce.API, produce.VERSIONS)
    if in_transaction and not has_implicit_transactions(connection):
        version = min(version, produce.IMPLICIT_TRANSACTION_FROM - 1)
    return version


def has_implicit_transactions(connection: Connection) -> bool:
    """Whether the cluster has finalised KIP-890's second part: produce requests add partitions to a
    transaction, and every transaction has an epoch of its own."""
    return connection.features.features.get(TRANSACTION_FEATURE, 0) >= IMPLICIT_LEVEL
