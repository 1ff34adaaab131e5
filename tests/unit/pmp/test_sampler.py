"""A sampler measures only while it leads, and computes no rates over a time in which it did not."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from pmp.sampler import Sampler
from pmp.samples.sample import Sample
from pmp.samples.snapshot import LogSnapshot
from tests.unit.pmp.test_sampling import BEFORE


class GrowingCluster:
    """Probe and sink of a cluster whose log grows by 1000 bytes per measurement, one per second."""

    def __init__(self) -> None:
        self.looks = 0
        self.sizes: list[float] = []

    def snapshot(self) -> LogSnapshot:
        self.looks += 1
        return replace(
            BEFORE,
            time_ms=self.looks * 1000,
            offsets_seconds=float(self.looks),
            sizes_seconds=float(self.looks),
            end_offsets=dict.fromkeys(BEFORE.leaders, self.looks),
            size_bytes=dict.fromkeys(BEFORE.leaders, self.looks * 1000),
        )

    def write(self, samples: Sequence[Sample]) -> None:
        self.sizes += [one.size_bytes for one in samples]

    def close(self) -> None:
        pass


def test_only_the_leader_measures() -> None:
    cluster, done = GrowingCluster(), threading.Event()
    terms = iter((False, True, True, False, True, True, True))

    def leads() -> bool:
        leading = next(terms, None)
        if leading is None:
            done.set()
        return bool(leading)

    sampler = Sampler("source", cluster, cluster, 0.0, leads)
    sampler.start()
    try:
        assert done.wait(30)
        assert sampler.healthy
    finally:
        sampler.stop(30)
    assert sampler.failure is None
    assert cluster.looks == 5
    assert cluster.sizes == [2000, 4000, 5000]
