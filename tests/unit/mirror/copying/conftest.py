"""A loop whose time stands still."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirror.copying.loop import Loop
from tests.fakes.clock import ManualClock


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop(ManualClock())
    yield loop
    loop.close()
