"""Load time of the first page with many datastreams: first paint, first rows, bytes transferred.

One instance in memory, with real use cases, leader and REST over a socket, copies all partitions; the metrics
of its workers are injected. A Chromium on the same machine opens the page each time with empty caches.
Environment: `DATASTREAMS` (500), `PARTITIONS` (200000 in total), `TIMES` (7).
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping
from typing import Any, Final

from playwright.sync_api import Browser, expect

from mirror.model.metrics import SHOWN_OF_LANES
from mirror.model.movement.history import UNKNOWN_RETENTION, LanePosition
from mirror.model.topics import TopicDescription
from mirror.worker.protocol import LaneRate
from tests.browser.chromium import WIDE, running_chromium
from tests.browser.served import served
from tests.builders import SOURCE, a_datastream
from tests.fakes.site import Site

_ROWS: Final = 50
_READY: Final = "document.querySelectorAll('tbody tr').length >= 50"
_FIGURES: Final = """() => {
  const paints = performance.getEntriesByName('first-contentful-paint');
  const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
  return {paint: paints[0].startTime, rows: window.rowsAt,
          bytes: all.reduce((sum, one) => sum + one.transferSize, 0), calls: all.length};
}"""
_WATCHED: Final = f"""new MutationObserver((_, seen) => {{
  if ({_READY}) {{ window.rowsAt = performance.now(); seen.disconnect(); }}
}}).observe(document, {{childList: true, subtree: true}})"""
"""Script that records when the rows of the first view are in the document."""


def main() -> None:
    """Print the load times."""
    datastreams, partitions, times = (
        int(os.environ.get(name, usual))
        for name, usual in (("DATASTREAMS", 500), ("PARTITIONS", 200_000), ("TIMES", 7))
    )
    began = time.perf_counter()
    site = _site(datastreams, partitions)
    lanes = len(site.services.status.lanes)
    print(f"{datastreams:,} datastreams, {lanes:,} lanes, made in {time.perf_counter() - began:.0f} s")
    with served(site.app) as address, running_chromium() as browser:
        loads = [_load(browser, f"{address}/ui/") for _ in range(times + 1)][1:]
        for name, unit in (("paint", "ms"), ("rows", "ms"), ("bytes", "B"), ("calls", "")):
            values = sorted(load[name] for load in loads)
            middle = statistics.median(values)
            print(
                f"{name:8} median {middle:>10,.0f} {unit:2} of {times}, {values[0]:,.0f} to {values[-1]:,.0f}"
            )
        began = time.perf_counter()
        size = len(site.client.get("/v1/overview").content)
        print(f"/v1/overview: {size:,} bytes as JSON, {(time.perf_counter() - began) * 1_000:,.0f} ms")


def _load(browser: Browser, address: str) -> Mapping[str, Any]:
    """Return the load times of one visit with empty caches."""
    context = browser.new_context(viewport=WIDE)
    try:
        context.add_init_script(_WATCHED)
        page = context.new_page()
        page.goto(address)
        expect(page.locator("tbody tr")).to_have_count(_ROWS, timeout=120_000)
        found: Mapping[str, Any] = page.evaluate(_FIGURES)
        return found
    finally:
        context.close()


def _site(datastreams: int, partitions: int) -> Site:
    """Return a service with one topic per datastream and metrics for all lanes."""
    site = Site()
    each = partitions // datastreams
    for number in range(datastreams):
        topic = f"topic-{number:04}"
        site.source.topics[topic] = TopicDescription(topic, each)
        owner = {"owner": f"team-{number % 25}"}
        site.definitions.create(a_datastream(f"datastream-{number:04}", topic, metadata=owner))
    site.tick(4)
    shown = (1.0,) * len(SHOWN_OF_LANES)
    for key, lane in site.services.status.lanes.items():
        place = LanePosition(1_000, 1_050, 1_050, 0, UNKNOWN_RETENTION)
        for _ in range(2):
            rate = LaneRate(key, SOURCE, 10_000.0, 10.0, 50, 400, shown, place)
            lane.track.note(rate, site.clock.monotonic(), None)
    return site
