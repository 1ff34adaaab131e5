"""Screenshot of Superset's dashboard for docs/: the bundle in a real Superset that queries a real Pinot.

The rows are generated: an hour of two datastreams, in which two partitions of a topic carry most of its load.
Environment: `INTO` (docs/pictures).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from playwright.sync_api import Page

from bench.pages.rig.picture import keep
from bench.pmp.rig.metrics_load import Servers, servers
from deploy.superset.bundle import charts, dashboard
from deploy.superset.bundle import main as pack
from mirror.model.metrics import MirrorMetric
from pinot.client import PinotClient
from pinot.tables import MIRROR_METRICS, PARTITION_METRICS, PartitionMetric
from stack.ports import free_ports
from tests.browser.chromium import running_chromium
from tests.metrics_data import MetricsWorld, a_measurement, a_metric
from tests.patience import PATIENCE_SECONDS
from tests.superset import ADMIN, Superset

_CLUSTER: Final = "source"
_MINUTES: Final = 60
_MINUTE_MS: Final = 60_000
_LOADS: Final = {
    "orders": [2.1e6, 0.2e6, 2.0e6, *[0.08e6] * 5],
    "clicks": [0.43e6, 0.22e6, 0.15e6, *[0.1e6] * 5],
    "payments": [0.3e6] * 4,
}
"""Bytes/s of each partition, by topic."""
_COPIED_BY: Final = {"shop": ("shop-0", "shop-1", "shop-2"), "billing": ("billing-0",)}


def main() -> None:
    """Write the screenshot. Raise SystemExit if it is too large."""
    file = Path(os.environ.get("INTO", "docs/pictures")) / "superset.png"
    with servers(pinot_heap_mib=512) as made:
        _fill(made)
        superset = Superset(made.folder)
        packed = made.folder / "headrace.zip"
        pack([str(packed)])
        superset.take(packed)
        settings = made.pinot_settings
        database = f"pinot://{settings.broker}/query/sql?controller=http://{settings.controller}/"
        with superset.serving(database, free_ports(1)[0]) as url, running_chromium() as browser:
            page = browser.new_page(
                viewport={"width": 1280, "height": 1000}, locale="en-GB", timezone_id="UTC"
            )
            page.set_default_timeout(PATIENCE_SECONDS * 1_000)
            _open(page, url)
            size = keep(_screenshot(page), file)
    print(f"{file}: {size:,} bytes")


def _fill(made: Servers) -> None:
    """Write an hour of samples and measurements that ends now."""
    with closing(PinotClient(made.pinot_settings)) as client:
        metrics = MetricsWorld(client, made.broker.address)
        noise = random.Random(7)
        end = int(time.time() * 1_000) // _MINUTE_MS * _MINUTE_MS
        times = range(end - _MINUTES * _MINUTE_MS, end, _MINUTE_MS)
        metrics.put(PARTITION_METRICS, [*_samples(times, noise)])
        metrics.put(MIRROR_METRICS, [*_measurements(times, noise)])


def _samples(times: range, noise: random.Random) -> Iterator[PartitionMetric]:
    for at in times:
        for topic, loads in _LOADS.items():
            for partition, load in enumerate(loads):
                rate = load * noise.uniform(0.9, 1.1)
                yield a_metric(_CLUSTER, topic, partition, at, inflow_bytes_per_second=rate)


def _measurements(times: range, noise: random.Random) -> Iterator[MirrorMetric]:
    for at in times:
        for datastream, tasks in _COPIED_BY.items():
            for number, task in enumerate(tasks):
                wait = int(noise.uniform(20, 80) * (4 if task == "shop-0" else 1))
                row = a_measurement(datastream, _CLUSTER, number, at, wait, wait)
                copied = int(60 * 1e6 / (number + 1) * noise.uniform(0.9, 1.1))
                yield replace(row, task=task, bytes_copied=copied, interval_ms=_MINUTE_MS)


def _open(page: Page, url: str) -> None:
    """Open the dashboard and wait until all charts are shown."""
    page.goto(f"{url}/login/")
    page.fill("#username", ADMIN)
    page.fill("#password", ADMIN)
    page.press("#password", "Enter")
    page.wait_for_url(f"{url}/superset/welcome/")
    page.goto(f"{url}/superset/dashboard/{dashboard()['slug']}/")
    for chart in charts():
        page.get_by_text(chart["slice_name"], exact=True).first.wait_for()
    tables = sum(chart["viz_type"] == "table" for chart in charts())
    shown = "([tables, lines]) => document.querySelectorAll('table tbody tr td').length > 0"
    shown += " && document.querySelectorAll('.chart-slice table').length >= tables"
    shown += " && document.querySelectorAll('.chart-slice canvas').length >= lines"
    shown += " && !document.querySelector('.loading')"
    page.wait_for_function(shown, arg=[tables, len(charts()) - tables])


def _screenshot(page: Page) -> bytes:
    """Return a screenshot after the charts have stopped moving."""
    before, now = b"", page.screenshot(animations="disabled")
    while now != before:
        before, now = now, page.screenshot(animations="disabled")
    return now
