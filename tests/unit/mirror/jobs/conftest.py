"""Fixtures of jobs between two fake clusters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.fakes.broker.mirrored import MirroredFakes


@pytest.fixture
def fakes() -> Iterator[MirroredFakes]:
    """Return clusters of two brokers each, and an engine between them."""
    with closing(MirroredFakes()) as rig:
        yield rig
