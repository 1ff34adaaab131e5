"""Contract tests of the fake broker: the same requests to it and to a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.contract.kafka.asking import BrokerClient
from tests.fakes.broker.cluster import FakeCluster, running


@pytest.fixture(scope="session")
def fake_address() -> Iterator[str]:
    """Start one fake broker."""
    with running(FakeCluster("contract")) as cluster:
        yield cluster.address


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.servers)])
def broker(request: pytest.FixtureRequest) -> Iterator[BrokerClient]:
    """Return a client of a cluster with one broker."""
    is_fake = request.param == "fake"
    address = request.getfixturevalue("fake_address" if is_fake else "destination_kafka")
    client = BrokerClient(address if is_fake else address.address)
    yield client
    client.close()


@pytest.fixture
def topic() -> str:
    """Return a unique name."""
    return f"kafka-{uuid4().hex[:8]}"
