"""Fixtures with a loop on a manual clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirror.client.event_loop import Loop
from tests.fakes.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def loop(clock: ManualClock) -> Iterator[Loop]:
    loop = Loop(clock)
    yield loop
    loop.close()
