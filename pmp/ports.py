"""Interfaces (Protocols) of the sampler and the rollup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from pinot.tables import PartitionMetricHourly
from pmp.samples.sample import Sample
from pmp.samples.snapshot import LogSnapshot


class ClusterProbe(Protocol):
    """Measures the partitions of one cluster."""

    def snapshot(self) -> LogSnapshot:
        """Return leaders, end offsets and log sizes of all partitions. Raises Unreachable, NotAuthorized."""
        ...

    def close(self) -> None:
        """Close the connections. Idempotent."""
        ...


class SampleSink(Protocol):
    """Writer of samples."""

    def write(self, samples: Sequence[Sample]) -> None:
        """Write samples and return when all are stored. Raises Unreachable, Refused."""
        ...

    def close(self) -> None:
        """Close the connections. Idempotent."""
        ...


class HourSink(Protocol):
    """Writer of hourly rollups."""

    def write(self, rows: Iterable[PartitionMetricHourly]) -> None:
        """Write rollups and return when all are stored. Raises Unreachable, Refused."""
        ...

    def close(self) -> None:
        """Close the connections. Idempotent."""
        ...
