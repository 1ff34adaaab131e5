"""The last known loads are used while Pinot is down, and report their age."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

import pytest

from mirror.errors import LoadUnavailable, Unreachable
from mirror.model.load import LoadLevel, LoadReport, PartitionLoad, RateSource
from mirror.model.topics import TopicPartition
from pinot.client import PinotClient, QueryResult
from pmp.loads.last_known import LastKnown
from pmp.loads.provider import PinotLoadProvider
from pmp.settings import PmpSettings, ProviderSettings
from tests.builders import SOURCE
from tests.fakes.clock import ManualClock

OLDEST_SECONDS: Final = 3600
PLACE: Final = TopicPartition("orders", 0)


class AwayPinot:
    """A client whose broker does not respond."""

    def ask(self, sql: str, parameters: Mapping[str, object] | None = None) -> object:
        raise Unreachable("no broker")


class WithoutRollups:
    """A client that has no samples, and whose table of rollups does not respond. Counts its failures."""

    def __init__(self) -> None:
        self.failures = 0

    def ask(self, sql: str, parameters: Mapping[str, object] | None = None) -> QueryResult:
        if "from partitionMetricsHourly " in sql:
            self.failures += 1
            raise Unreachable("no server has the rollups")
        return QueryResult((), [], 0)


def provider_with(folder: Path, measured_ms: int, answered_ms: int, clock: ManualClock) -> PinotLoadProvider:
    """Return a provider that finds a result from before its restart."""
    load = PartitionLoad(1000.0, None, LoadLevel.PARTITION, RateSource.SLOPE, measured_ms)
    LastKnown(folder).remember(SOURCE, LoadReport({PLACE: load}, "pinot", measured_ms), answered_ms)
    settings = ProviderSettings(cache_folder=str(folder), oldest_answer_seconds=OLDEST_SECONDS)
    return PinotLoadProvider(cast(PinotClient, AwayPinot()), PmpSettings(provider=settings), clock)


def test_loads_from_before_an_outage_are_held(tmp_path: Path) -> None:
    clock = ManualClock()
    measured_ms = clock.now_ms() - 600_000
    report = provider_with(tmp_path, measured_ms, measured_ms, clock).loads(SOURCE, [PLACE])
    load = report.loads[PLACE]
    assert (load.bytes_per_second, load.rate_source) == (1000.0, RateSource.HELD)
    assert (load.measured_at_ms, report.measured_at_ms) == (measured_ms, measured_ms)


@pytest.mark.parametrize(("more_ms", "is_too_old"), [(0, False), (1, True)])
def test_their_age_counts_from_the_measurement_and_not_from_the_answer(
    tmp_path: Path, more_ms: int, is_too_old: bool
) -> None:
    clock = ManualClock()
    now_ms = clock.now_ms()
    provider = provider_with(tmp_path, now_ms - OLDEST_SECONDS * 1000 - more_ms, now_ms - 60_000, clock)
    if is_too_old:
        with pytest.raises(LoadUnavailable):
            provider.loads(SOURCE, [PLACE])
    else:
        assert provider.loads(SOURCE, [PLACE]).loads[PLACE].bytes_per_second == 1000.0


def test_rollups_that_do_not_respond_are_queried_once_per_refresh() -> None:
    clock, pinot = ManualClock(), WithoutRollups()
    settings = PmpSettings()
    provider = PinotLoadProvider(cast(PinotClient, pinot), settings, clock)
    counts = []
    for seconds in (0.0, 0.001, settings.provider.refresh_seconds):
        clock.advance(seconds)
        with pytest.raises(LoadUnavailable):
            provider.loads(SOURCE, [PLACE])
        counts.append(pinot.failures)
    assert counts[0] == counts[1] < counts[2]
