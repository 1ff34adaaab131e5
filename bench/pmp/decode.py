"""Samples decoded per second by one core: the codec alone, on a recording and on a large batch."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pyarrow as pa

from bench.pmp.rig.metrics_load import rounds
from bench.tables import print_table
from pmp.samples.decoder import decode

_RECORDING = Path(__file__).parents[2] / "tests/data/cruise-control/samples.jsonl.gz"


def main() -> None:
    """Print the best of five runs at each batch size."""
    with gzip.open(_RECORDING, "rt") as lines:
        recorded = [bytes.fromhex(json.loads(line)["value"]) for line in lines]
    made = list(rounds(100_000, 1))
    batches = (("recorded", recorded), ("generated", made[:10_000]), ("generated", made))
    columns = ((name, pa.array(values, pa.binary())) for name, values in batches)
    rows = ((name, f"{len(column):,}", f"{_rate(column):,.0f}") for name, column in columns)
    print_table(("decoding only", "samples", "samples/s"), rows)


def _rate(column: pa.Array) -> float:
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        assert not decode(column).error.any()
        best = min(best, time.perf_counter() - began)
    return len(column) / best
