"""The same questions to the fake broker and to a real one: the fake is held to the truth."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.contract.kafka.asking import BrokerClient
from tests.fakes.broker.cluster import FakeCluster, running


@pytest.fixture(scope="session")
def fake_address() -> Iterator[str]:
    """One fake broker."""
    with running(FakeCluster("contract")) as cluster:
        yield cluster.address


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.servers)])
def broker(request: pytest.FixtureRequest) -> Iterator[BrokerClient]:
    """A client of a cluster with one broker."""
    is_fake = request.param == "fake"
    address = request.getfixturevalue("fake_address" if is_fake else "destination_kafka")
    client = BrokerClient(address if is_fake else address.address)
    yield client
    client.close()


@pytest.fixture
def topic() -> str:
    """A name that nobody has used."""
    return f"kafka-{uuid4().hex[:8]}"
