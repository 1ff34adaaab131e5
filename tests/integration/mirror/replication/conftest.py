"""Engines between the shared clusters, stopped at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.engines import EngineUnderTest
from tests.servers import KafkaPair


@pytest.fixture
def engine(kafka_pair: KafkaPair) -> Iterator[EngineUnderTest]:
    """Return an engine between the shared clusters."""
    engine = EngineUnderTest(kafka_pair.source.address, kafka_pair.destination.address)
    yield engine
    engine.stop()


@pytest.fixture
def new_engine() -> Iterator[Callable[..., EngineUnderTest]]:
    """Return a factory of engines between any two addresses, which end with the test."""
    made: list[EngineUnderTest] = []

    def make(source: str, destination: str, **fields: Any) -> EngineUnderTest:
        made.append(EngineUnderTest(source, destination, **fields))
        return made[-1]

    yield make
    for engine in made:
        engine.crash()
