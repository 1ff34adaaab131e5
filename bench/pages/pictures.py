"""Screenshots of the web pages on real servers for docs/: an incident, and the path to the hot partition.

Starts the servers of the demonstration, with three datastreams and generated loads of the past two weeks
(`rig/scene.py`). Follows the path of `rig/walk.py` in a Chromium twice: during an incident, while records
wait, and after the recovery. Environment: `AT` (`host:port` of a running service, such as one of `make demo
KEEP=1`; without the picture of an incident), `INTO` (docs/pictures), `PORT_OFFSET` (400).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import ViewportSize, expect

from bench.pages.rig.picture import keep, screenshot
from bench.pages.rig.scene import Scene
from bench.pages.rig.walk import INCIDENT, WAY, show_incident, walk
from headrace_dev.demo.processes import DemoProcesses
from headrace_dev.demo.scenario import INSTANCES
from tests.browser.chromium import running_chromium

_SIZE: Final[ViewportSize] = {"width": 1280, "height": 1000}
_PATIENCE_SECONDS: Final = 300.0
_PORT_OFFSET: Final = 400
"""Offset that keeps all ports below the ephemeral port range, which starts at 32768."""
_OF_INCIDENT: Final = ("overview", "plan-preview", INCIDENT.name)
"""Pictures taken during the incident."""


def main() -> None:
    """Write the screenshots. Raise SystemExit if one is too large."""
    began = time.perf_counter()
    every = [one.name for one in WAY]
    if at := os.environ.get("AT"):
        sizes = _shots(at, every)
    else:
        with _scene() as (scene, address):
            scene.start()
            scene.incident()
            sizes = _shots(address, _OF_INCIDENT)
            scene.recovery()
            sizes |= _shots(address, [name for name in every if name not in _OF_INCIDENT])
    for stop in (*WAY, INCIDENT):
        if stop.name in sizes:
            print(f"{stop.name:16} {sizes[stop.name]:>8,} bytes  {stop.text}")
    print(f"{time.perf_counter() - began:.0f} s in total")


def _shots(address: str, names: Collection[str]) -> dict[str, int]:
    """Follow the path through the pages and write these screenshots. Return their sizes."""
    began, sizes = time.perf_counter(), dict[str, int]()
    folder = Path(os.environ.get("INTO", "docs/pictures"))
    has_incident = INCIDENT.name in names
    with running_chromium() as browser:
        page = browser.new_page(viewport=_SIZE, locale="en-GB", timezone_id="UTC", color_scheme="light")
        page.set_default_timeout(_PATIENCE_SECONDS * 1_000)
        expect.set_options(timeout=_PATIENCE_SECONDS * 1_000)

        def taken(name: str) -> None:
            if name in names:
                sizes[name] = keep(screenshot(page), folder / f"{name}.png")

        page.goto(f"http://{address}/")
        found = walk(page, taken, is_full=not has_incident)
        if has_incident:
            show_incident(page, taken)
    print(f"{len(sizes)} pictures in {time.perf_counter() - began:.0f} s: {found.text}", flush=True)
    return sizes


@contextmanager
def _scene() -> Iterator[tuple[Scene, str]]:
    """Yield the service to photograph, not started, and its address."""
    offset = int(os.environ.get("PORT_OFFSET", str(_PORT_OFFSET)))
    with tempfile.TemporaryDirectory(prefix="headrace-pictures-") as home:
        processes = DemoProcesses(Path(home), offset, print)
        try:
            with closing(Scene(processes)) as scene:
                yield scene, processes.rest_address(INSTANCES[0])
        finally:
            processes.stop()
