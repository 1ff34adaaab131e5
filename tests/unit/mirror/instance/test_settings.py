"""Test contradictory settings of an instance."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from mirror.instance.settings import LeaderSettings


def test_a_leader_remembers_at_least_the_observations_that_a_plan_by_time_waits_for() -> None:
    assert LeaderSettings(replan_interval_seconds=10, scale_in_after_hours=30 / 3_600)
    with pytest.raises(ValidationError, match="scale_in_after_hours"):
        LeaderSettings(replan_interval_seconds=10, scale_in_after_hours=29 / 3_600)


@pytest.mark.parametrize("key", ["task_capacity_bytes_per_second", "task_capacity_messages_per_second"])
def test_a_capacity_of_which_nothing_is_usable_is_refused(key: str) -> None:
    assert LeaderSettings.model_validate({key: 2})
    with pytest.raises(ValidationError, match="capacity"):
        LeaderSettings.model_validate({key: 1})


@pytest.mark.parametrize("hours", [0.0, -1.0, 24.1, float("nan")])
def test_an_observation_keeps_tasks_for_some_time_within_a_day(hours: float) -> None:
    with pytest.raises(ValidationError, match="scale_in_after_hours"):
        LeaderSettings(scale_in_after_hours=hours)
