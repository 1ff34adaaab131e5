"""`headrace calibrate` on its own brokers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.servers, pytest.mark.long]


def test_what_one_core_copies_is_measured_for_every_shape() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "calibrate", "--seconds", "10", "--json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    shapes = {one["shape"]: one for one in found["shapes"]}
    assert [one["batch_records"] for one in found["shapes"]] == [1, 10, 100, 100, 100]
    for one in shapes.values():
        assert 0 <= one["low"] <= one["bytes_per_second"] <= one["high"]
        assert one["records_per_second"] > 0
    assert shapes["hundred-zstd"]["batch_bytes"] < shapes["hundred"]["batch_bytes"]
    dearest = min(max(one["low"], one["bytes_per_second"] / 2) for one in shapes.values())
    assert 0.9 * dearest <= found["setting"] <= dearest
