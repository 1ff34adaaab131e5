"""Interfaces of the sampler and the rollup to Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from pinot.tables import PartitionMetricHourly
from pmp.samples.sample import Sample
from pmp.samples.snapshot import LogSnapshot


class ClusterProbe(Protocol):
    """Interface for measuring the partitions of one cluster."""

    def snapshot(self) -> LogSnapshot:
        """Return leaders, end offsets and log sizes of all partitions. Raises Unreachable, NotAuthorized."""
        ...

    def close(self) -> None:
        """Close the connections. Idempotent."""
        ...


class SampleSink(Protocol):
    """Interface for writing samples."""

    def write(self, samples: Sequence[Sample]) -> None:
        """Write samples and return when all are stored. Raises Unreachable, Refused."""
        ...

    def close(self) -> None:
        """Close the connections. Idempotent."""
        ...


class HourSink(Protocol):
    """Interface for writing hourly rollups."""

    def write(self, rows: Iterable[PartitionMetricHourly]) -> None:
        """Write rollups and return when all are stored. Raises Unreachable, Refused."""
        ...

    def close(self) -> None:
        """Close the connections. Idempotent."""
        ...
