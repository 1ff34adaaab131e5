"""Test burn rules from the settings, and the state of an error budget."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from pydantic import ValidationError

from mirror.errors import InvalidRequest
from mirror.model.datastreams.objectives import Objective
from monitor.burn.rates import DAY_SECONDS, Budget, BurnRule, judge_budget, read_rule
from monitor.burn.tally import LatencyTally, late_records
from monitor.settings import MonitorSettings

RULES = [read_rule(text) for text in MonitorSettings().burn_rates]
OBJECTIVE = Objective(2_000, 99.5)
HOUR = 3_600


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("14.4 over 1 h and 5 m", BurnRule(14.4, HOUR, 300)),
        ("6 over 6h and 30m", BurnRule(6.0, 6 * HOUR, 1_800)),
        ("1 over 3 d", BurnRule(1.0, 3 * DAY_SECONDS, 3 * DAY_SECONDS)),
    ],
)
def test_a_rule_reads_as_it_is_written(text: str, rule: BurnRule) -> None:
    assert read_rule(text) == rule
    assert read_rule(rule.text) == rule


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fast",
        "14.4",
        "0 over 1 h",
        "1 over 5 m and 1 h",
        "1 over 5 s",
        "1 over 31 d",
        "-1 over 1 h",
        "1 over 1 y",
    ],
)
def test_what_is_no_rule_is_refused_by_the_settings(text: str) -> None:
    with pytest.raises(InvalidRequest):
        read_rule(text)
    with pytest.raises(ValidationError, match="burn rate"):
        MonitorSettings(burn_rates=[text])


def budget_of(bad: Mapping[int, float], days: int = 30) -> Budget:
    """Return a budget. `bad`: fraction of late records by window; other windows are unknown."""
    tallies = {seconds: LatencyTally(1_000, 1_000 * share) for seconds, share in bad.items()}
    return judge_budget(OBJECTIVE, tallies, RULES, 100, days)


def test_both_windows_of_a_rule_must_burn_and_any_rule_is_enough() -> None:
    fast, month = 14.4 * 0.005, {30 * DAY_SECONDS: 0.001}
    calm = dict.fromkeys((300, 1_800, HOUR, 6 * HOUR, 3 * DAY_SECONDS), 0.0) | month
    assert budget_of(calm).firing == ()
    assert budget_of(calm | {HOUR: fast}).firing == ()
    assert budget_of(calm | {300: fast}).firing == ()
    (burn,) = budget_of(calm | {HOUR: fast, 300: fast}).firing
    assert (burn.rule.text, burn.rule.has_two_windows) == ("14.4 over 1 h and 5 m", True)
    (burn,) = budget_of(calm | {3 * DAY_SECONDS: 0.005}).firing
    assert (burn.rule.text, burn.rule.has_two_windows) == ("1 over 3 d", False)
    assert budget_of({HOUR: fast}).firing == ()


def test_a_budget_says_what_is_left_and_how_fast_it_burns() -> None:
    found = budget_of({300: 0.1, HOUR: 0.08, 30 * DAY_SECONDS: 0.001})
    objective, burning, alert = found.sentence.split("; ")
    assert re.findall(r"[\d.]+ ?%|\d+ [sd]\b", objective) == ["99.5 %", "2 s", "30 d", "80%"]
    rates = {window: rate for rate, window in re.findall(r"(\S+) in (\d+ \w)", burning)}
    assert rates == {"5 m": "20x", "30 m": "?", "1 h": "16x", "6 h": "?", "3 d": "?"}
    assert alert.endswith(f": {RULES[0].text}")
    kept = budget_of({14 * DAY_SECONDS: 0.01}, days=14)
    assert re.search(r" -100% .*\b14 d\b", kept.sentence)
    assert "budget unknown" in budget_of({}).sentence


def test_late_is_what_lies_above_and_inside_a_bucket_a_part() -> None:
    counts = [0] * 20
    counts[11] = 100  # 1024 to 2048 ms
    assert late_records(counts, 2_048) == pytest.approx(0)
    assert late_records(counts, 1_024) == pytest.approx(100)
    assert late_records(counts, 1_448) == pytest.approx(50, abs=0.1)
    counts[19] = 7  # the last bucket is open-ended
    assert late_records(counts, 10**9) == 7
