"""Run short schedules of faults on a real service for a few seeds; `make chaos` runs long ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.service.arrivals import Arrivals
from tests.chaos.service.run import Order, Run
from tests.chaos.service.site import Site
from tests.coordination_stores import store_servers
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]
SECONDS = 18.0


@pytest.fixture(scope="module", params=["zookeeper", "kafka"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Start a site of two instances for each store, shared by the seeds."""
    folder = tmp_path_factory.mktemp("site")
    made = Site(folder, 2, store=store_servers(request.param, folder), quick_start=True)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def arrivals(site: Site) -> Iterator[Arrivals]:
    made = Arrivals(site.destination.address)
    made.start()
    yield made
    made.stop()


@pytest.mark.parametrize("seed", range(1, 3))
def test_nothing_is_lost_doubled_or_out_of_order(site: Site, arrivals: Arrivals, seed: int) -> None:
    order = Order(seed, SECONDS, mean_pause=1.5, rate=15.0, patience=PATIENCE_SECONDS, attack=4.0)
    verdict = Run(site, arrivals, order, print).carry_out()
    print(verdict)
    assert not verdict.violations, f"{verdict}\n  logs: {site.folder}"
