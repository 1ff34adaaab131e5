"""The engine that most tests drive: between the session's two clusters, stopped in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.engines import EngineUnderTest
from tests.servers import KafkaPair


@pytest.fixture
def engine(kafka_pair: KafkaPair) -> Iterator[EngineUnderTest]:
    """Between the session's clusters."""
    engine = EngineUnderTest(kafka_pair.source.address, kafka_pair.destination.address)
    yield engine
    engine.stop()


@pytest.fixture
def new_engine() -> Iterator[Callable[..., EngineUnderTest]]:
    """Makes engines between any two addresses; they are gone when the test is over."""
    made: list[EngineUnderTest] = []

    def make(source: str, destination: str, **fields: Any) -> EngineUnderTest:
        made.append(EngineUnderTest(source, destination, **fields))
        return made[-1]

    yield make
    for engine in made:
        engine.crash()
