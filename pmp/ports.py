"""What the sampler and the rollup need from the world."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from pinot.tables import PartitionMetricHourly
from pmp.samples.look import Look
from pmp.samples.sample import Sample


class ClusterProbe(Protocol):
    """Looks at one cluster."""

    def look(self) -> Look:
        """Leaders, end offsets and log sizes of all partitions. Raises Unreachable, NotAuthorized."""
        ...

    def close(self) -> None:
        """Release connections. Safe to call twice."""
        ...


class SampleSink(Protocol):
    """Where samples go."""

    def write(self, samples: Sequence[Sample]) -> None:
        """Write them; returns when all are stored. Raises Unreachable, Refused."""
        ...

    def close(self) -> None:
        """Release connections. Safe to call twice."""
        ...


class HourSink(Protocol):
    """Where hourly rollups go."""

    def write(self, rows: Iterable[PartitionMetricHourly]) -> None:
        """Write them; returns when all are stored. Raises Unreachable, Refused."""
        ...

    def close(self) -> None:
        """Release connections. Safe to call twice."""
        ...
