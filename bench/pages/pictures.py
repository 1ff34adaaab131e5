"""Screenshots of the web pages on real servers for docs/: from the first page to the hot partition.

Starts the servers of the demonstration with its uneven traffic, waits until loads are known and used for
placement, and follows the path of `rig/walk.py` in a Chromium. Environment: `AT` (`host:port` of a running
service, such as one of `make demo KEEP=1`), `INTO` (docs/pictures), `PORT_OFFSET` (700).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from bench.pages.rig.picture import keep
from bench.pages.rig.walk import WAY, walk
from headrace.console.client import RestClient
from headrace.demo.processes import DemoProcesses
from headrace.demo.scenario import DATASTREAM, INSTANCES, OBJECTIVE_MS, TOPICS, usual_rates
from mirror.errors import HeadraceError
from stack.wait import wait_until
from tests.browser.chromium import WIDE, running_chromium

_PATIENCE_SECONDS: Final = 300.0
_MEASURED_SECONDS: Final = 90.0
"""Time to collect a history for the charts."""


def main() -> None:
    """Write the screenshots. Raise SystemExit if one is too large or another partition is found."""
    folder = Path(os.environ.get("INTO", "docs/pictures"))
    with _service() as address, running_chromium() as browser:
        page = browser.new_page(viewport=WIDE, locale="en-GB", timezone_id="UTC", color_scheme="light")
        page.set_default_timeout(_PATIENCE_SECONDS * 1_000)
        began, sizes = time.perf_counter(), dict[str, int]()

        def taken(name: str) -> None:
            sizes[name] = keep(page.screenshot(animations="disabled"), folder / f"{name}.png")

        page.goto(f"http://{address}/")
        found = walk(page, taken)
        print(f"found in {time.perf_counter() - began:.0f} s, pictures included: {found.text}")
    for stop in WAY:
        print(f"{stop.name:16} {sizes[stop.name]:>8,} bytes  {stop.text}")


@contextmanager
def _service() -> Iterator[str]:
    """Yield the address of a service that is placed by known loads."""
    if at := os.environ.get("AT"):
        yield at
        return
    offset = int(os.environ.get("PORT_OFFSET", "700"))
    with tempfile.TemporaryDirectory(prefix="headrace-pictures-") as home:
        processes = DemoProcesses(Path(home), offset, print)
        try:
            _start(processes)
            yield processes.rest_address(INSTANCES[0])
        finally:
            processes.stop()


def _start(processes: DemoProcesses) -> None:
    processes.start_stack()
    processes.make_topics()
    processes.start_pipeline()
    processes.start_instances()
    processes.start_traffic(usual_rates())
    with closing(processes.client(INSTANCES[0])) as client:
        client.post(
            "/v1/datastreams",
            {
                "name": DATASTREAM,
                "source": {"cluster": "source", "topics": "|".join(TOPICS)},
                "destination": {"cluster": "destination", "name": "mirror.*"},
                "limits": {"min_tasks": 2},
                "objective": {"milliseconds": OBJECTIVE_MS},
                "metadata": {"owner": "team-shop"},
            },
        )
        wait_until(lambda: _is_measured(client), _PATIENCE_SECONDS, "loads are known")
        client.post("/v1/rebalance", {"datastream": DATASTREAM, "full": True, "reason": "loads are known"})
        began = time.monotonic()
        wait_until(
            lambda: time.monotonic() - began > _MEASURED_SECONDS and _is_shown(client),
            _PATIENCE_SECONDS,
            "history and advice are available",
        )


def _is_measured(client: RestClient) -> bool:
    """Return whether every partition has a load."""
    try:
        found = client.get(f"/v1/datastreams/{DATASTREAM}/loads")
    except HeadraceError:
        return False
    return bool(found["provider"] == "pinot" and found["bytes_per_second"] and not found["unknown"])


def _is_shown(client: RestClient) -> bool:
    """Return whether Pinot has a history and the leader an advice."""
    try:
        late = client.get(f"/v1/datastreams/{DATASTREAM}/latency/history")
        advice = client.get("/v1/advice")
    except HeadraceError:
        return False
    return any(late["p99_ms"]) and bool(advice["groups"])
