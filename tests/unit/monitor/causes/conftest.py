"""Fixture: a whole engine between fake clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.broker.mirrored import MirroredFakes


@pytest.fixture
def fakes() -> Iterator[MirroredFakes]:
    made = MirroredFakes()
    yield made
    made.close()
