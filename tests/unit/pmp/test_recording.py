"""Loads of a recorded Cruise Control, with and without a broker failure, compared with the truth."""

from __future__ import annotations

from collections import Counter

import pytest

from mirror.model.load import RateSource
from pinot.tables import Statistic
from tests.recording import DEATHS, Death, findings, provided, recording, replay, sampled

MINUTE_MS = 60_000


@pytest.mark.parametrize("window_ms", [MINUTE_MS, 4 * MINUTE_MS])
def test_without_a_death_every_load_is_the_slope_of_the_whole_range(window_ms: int) -> None:
    recorded = recording()
    samples = sampled(recorded)
    found = list(findings(recorded, lambda when: provided(samples, when), window_ms))
    assert len(found) > 300
    assert {one.load.rate_source for one in found} == {RateSource.SLOPE}
    assert max(one.error for one in found) < 0.05


@pytest.mark.deep
@pytest.mark.parametrize(("statistic", "tolerated"), [(Statistic.MEAN, 0.05), (Statistic.P95, 0.1)])
@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS)
def test_no_load_is_far_off_without_being_marked(
    death: Death, statistic: Statistic, tolerated: float
) -> None:
    """A change of rate is read up to a second late, in one step of 10 s, so a p95 is less exact."""
    recorded = replay(death)
    samples = sampled(recorded)
    for window_ms, least_marked in ((MINUTE_MS, 20), (4 * MINUTE_MS, 0)):
        found = list(
            findings(recorded, lambda when: provided(samples, when, statistic), window_ms, statistic)
        )
        assert all(one.load.age_ms(one.at_ms) is not None for one in found)
        sources = Counter(one.load.rate_source for one in found)
        assert sources[RateSource.SLOPE] > 300
        assert min(sources[RateSource.HELD], sources[RateSource.PARTIAL]) >= least_marked
        assert [
            one for one in found if one.error > tolerated and one.load.rate_source is RateSource.SLOPE
        ] == []
