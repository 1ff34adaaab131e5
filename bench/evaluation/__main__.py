"""Two fleets mirror the same skewed, changing load for 15 minutes: fixed by count, and elastic by load.

Both run on the same machine and the same two brokers, and copy the same topics to separate destinations, with
four instances of weights 1, 1, 2 and 2, one worker process each, and the same quota per task. `control`
places by partition count, with enough tasks for the peak at 20 % headroom if the load were even. `candidate`
places by the loads in Pinot (sampler, Spark job) and scales its tasks with the load. Deviations are means
over windows of 15 s, over the tasks that were in the plan throughout the window, and over the instances by
weight. The kernel counts the bytes from the source (`ss` of iproute2). Environment: `MINUTES` (15), `SEED`
(1) of the load, `FOLDER` (`.headrace/evaluation`) for the CSV files and the plots.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from bench.evaluation.course import Course, run
from bench.evaluation.fleets import FEWEST_TASKS, FIXED_TASKS, MOST_TASKS, Fleet
from bench.evaluation.measurements import recording
from bench.evaluation.pictures import draw
from bench.evaluation.rates import Load
from bench.evaluation.records import Recording, write
from bench.evaluation.report import audit_lines, lines
from bench.evaluation.site import Site, site
from bench.machine import print_machine
from pinot.client import PinotClient
from stack.folders import stack_home
from stack.process.wait import wait_until
from tests.metrics_data import pinot_settings

_PATIENCE_SECONDS: Final = 300.0
_LATE_SECONDS: Final = 10.0
"""Delay until Pinot has ingested the last measurements."""


def main() -> None:
    """Print the figures, and write records and plots to the folder."""
    minutes = float(os.environ.get("MINUTES", "15"))
    folder = Path(os.environ.get("FOLDER") or stack_home().parent / "evaluation")
    load = Load(minutes * 60, int(os.environ.get("SEED") or 1))
    print(f"{minutes:g} minutes; control: {FIXED_TASKS} tasks, candidate: {FEWEST_TASKS} to {MOST_TASKS}")
    with site() as running:
        course = run(running, load, _print)
        time.sleep(_LATE_SECONDS)
        found = _recorded(running, course, load)
        write(found, folder)
        print("\n".join(lines(found)), flush=True)
        audits = {fleet.name: _audit(fleet, course.written) for fleet in running.fleets}
    print("\n".join(audit_lines(audits, course.written)))
    for file in draw(found, folder):
        print(f"  {file}")


def _print(line: str) -> None:
    print(line, flush=True)


def _recorded(running: Site, course: Course, load: Load) -> Recording:
    client = PinotClient(pinot_settings(running.pinot))
    try:
        return recording(client, course, int(load.seconds), [fleet.name for fleet in running.fleets])
    finally:
        client.close()


def _audit(fleet: Fleet, written: int) -> list[dict[str, Any]]:
    """Run `headrace audit` after all records are copied. Findings are in its output."""
    wait_until(
        lambda: fleet.copied() == written,
        _PATIENCE_SECONDS,
        f"{fleet.name} has copied all records",
        interval_seconds=1.0,
    )
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "audit", fleet.name, "--at", fleet.instances[0].address, "--json"],
        env={**os.environ, **fleet.environment},
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    if not done.stdout:
        raise RuntimeError(f"audit of {fleet.name} failed: {done.stderr[-2000:]}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    print_machine()
    main()
