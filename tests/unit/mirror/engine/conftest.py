"""Fixtures that run the whole engine between two fake clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fakes.broker.mirrored import MirroredFakes


@pytest.fixture
def new_fakes() -> Iterator[Callable[..., MirroredFakes]]:
    """Return a factory of engines with their clusters, which are closed after the test."""
    made: list[MirroredFakes] = []

    def make(**fields: Any) -> MirroredFakes:
        made.append(MirroredFakes(**fields))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def fakes(new_fakes: Callable[..., MirroredFakes]) -> MirroredFakes:
    """Return an engine between clusters of two brokers each."""
    return new_fakes()
