"""Tables of the shared Pinot, and rows in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pinot.client import PinotClient
from stack.pinot import PinotServer
from tests.metrics_data import MetricsWorld, apply_tables, pinot_settings
from tests.servers import KafkaPair


@pytest.fixture(scope="session")
def metrics_world(pinot_server: PinotServer, kafka_pair: KafkaPair) -> Iterator[MetricsWorld]:
    """Return tables that ingest from the destination cluster, and a client."""
    apply_tables(pinot_server, kafka_pair.destination.address)
    client = PinotClient(pinot_settings(pinot_server))
    yield MetricsWorld(client, kafka_pair.destination.address)
    client.close()
