"""The whole engine between two fake clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fakes.broker.mirrored import MirroredFakes


@pytest.fixture
def new_fakes() -> Iterator[Callable[..., MirroredFakes]]:
    """Makes engines with their clusters, which are gone when the test is over."""
    made: list[MirroredFakes] = []

    def make(**fields: Any) -> MirroredFakes:
        made.append(MirroredFakes(**fields))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def fakes(new_fakes: Callable[..., MirroredFakes]) -> MirroredFakes:
    """Two brokers on each side."""
    return new_fakes()
