"""Run the notebooks and store their outputs for the documentation.

The first notebook reads generated loads from a real Pinot; the other notebooks need no server.
Environment: `NOTEBOOKS` (numbers, such as `02 05`; all by default).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from bench.pages.rig.outputs import Unfit, stored, text_of
from bench.pmp.rig.metrics_load import Servers, servers
from headrace_dev.demo.scenario import TASK_CAPACITY, TOPICS, UTILISATION_PERCENT, usual_rates
from pinot.client import PinotClient
from pinot.tables import PARTITION_METRICS, PartitionMetric
from tests.metrics_data import MetricsWorld, a_metric
from tests.notebooks import NOTEBOOKS, executed

_WITH_PINOT: Final = "01"
_CLUSTER: Final = "source"
_MINUTE_MS: Final = 60_000
_MINUTES: Final = 10


def main() -> None:
    """Execute and write the notebooks. Raise SystemExit if a notebook fails or has outputs that must not be
    stored."""
    wanted = os.environ.get("NOTEBOOKS", "").split()
    for file in sorted(NOTEBOOKS.glob("*.ipynb")):
        number = file.stem[:2]
        if wanted and number not in wanted:
            continue
        began = time.perf_counter()
        with _environment(number) as environment:
            cells = executed(file, environment)
        try:
            text = text_of(stored({"cells": cells}))
        except Unfit as error:
            raise SystemExit(f"{file.name}: {error}") from error
        file.write_text(text)
        seconds = time.perf_counter() - began
        print(f"{file.name:34} {len(text.encode()):>8,} bytes, {seconds:.0f} s", flush=True)


@contextmanager
def _environment(number: str) -> Iterator[Mapping[str, str]]:
    """Yield the environment variables of a notebook; its servers run for the context."""
    if number != _WITH_PINOT:
        yield {}
        return
    with servers(pinot_heap_mib=512) as made:
        _fill(made)
        yield {
            "HEADRACE_CONFIG": str(_settings(made)),
            "NOTEBOOK_CLUSTER": _CLUSTER,
            "NOTEBOOK_WINDOW_SECONDS": str(_MINUTES * 60),
        }


def _settings(made: Servers) -> Path:
    reached: Any = made.pinot_settings
    file = made.folder / "headrace.toml"
    file.write_text(
        f'[pinot]\ncontroller = "{reached.controller}"\nbroker = "{reached.broker}"\n'
        f"[mirror.leader]\ntask_capacity_bytes_per_second = {TASK_CAPACITY}\n"
        f"task_utilisation_percent = {UTILISATION_PERCENT}\n"
    )
    return file


def _fill(made: Servers) -> None:
    """Write samples of the demonstration's loads for the last minutes. They are constant, so that the outputs
    do not depend on the time."""
    with closing(PinotClient(made.pinot_settings)) as client:
        now_ms = int(time.time() * 1_000)
        times = range(now_ms - _MINUTES * _MINUTE_MS, now_ms, _MINUTE_MS)
        MetricsWorld(client, made.broker.address).put(PARTITION_METRICS, [*_samples(times)])


def _samples(times: range) -> Iterator[PartitionMetric]:
    for at in times:
        for topic, rates in usual_rates().items():
            for partition in range(TOPICS[topic]):
                rate = rates.get(str(partition), 0.0)
                yield a_metric(
                    _CLUSTER,
                    topic,
                    partition,
                    at,
                    inflow_bytes_per_second=rate,
                    bytes_in_per_second=rate,
                    growth_bytes=rate * _MINUTE_MS / 1_000,
                    growth_ms=_MINUTE_MS,
                )
