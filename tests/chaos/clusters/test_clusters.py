"""Faults of clusters of three brokers; `python -m bench cluster_faults` has the full table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.clusters.faults import Kind
from tests.chaos.clusters.run import SIDES, ClusterFaults, Order

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]
KINDS = (Kind.KILL, Kind.FREEZE, Kind.ROLLING_RESTART, Kind.MIN_INSYNC)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterFaults]:
    """Start both clusters, shared by the faults."""
    made = ClusterFaults(tmp_path_factory.mktemp("clusters"), Order(rate=120.0, before=1.0, seconds=6.0))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_record_is_lost_repeated_or_out_of_order(run: ClusterFaults, kind: Kind, side: str) -> None:
    row = run.carry_out(kind, side)
    assert not row.violations, row
