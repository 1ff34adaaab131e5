"""Settings of an operator reach the planner."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

from assigner.problem.policy import Policy
from assigner.settings import AssignerSettings
from mirror.model.load import LoadLevel


def test_defaults_are_those_of_the_policy_but_for_the_band_and_the_gain() -> None:
    assert AssignerSettings().policy() == Policy(overload_band=0.1, least_gain=0.05, move_slack=0.1)


def test_every_knob_arrives() -> None:
    settings = AssignerSettings.model_validate(
        {
            "rebalance_tolerance": 0.02,
            "rebalance_gain": 0.03,
            "scale_in_headroom": 0.3,
            "overload_band": 0.05,
            "settling_observations": 5,
            "move_slack": 0.2,
            "move_budget": 0.1,
            "full_move_cost": 2,
            "exact_cells": 7,
            "effort": 0.5,
            "seed": 9,
            "unknown": {"bytes_per_second": 100, "messages_per_second": 3},
        }
    )
    assert settings.policy() == Policy(
        tolerance=0.02,
        least_gain=0.03,
        scale_in_headroom=0.3,
        overload_band=0.05,
        settling=5,
        move_slack=0.2,
        move_budget=0.1,
        full_move_cost=2,
        exact_cells=7,
        effort=0.5,
        seed=9,
    )
    load = settings.unknown_load()
    assert (load.bytes_per_second, load.messages_per_second, load.level) == (100, 3, LoadLevel.DEFAULT)


@pytest.mark.parametrize(
    "key", ["rebalance_tolerance", "scale_in_headroom", "move_budget", "effort", "headroom"]
)
def test_wrong_values_and_unknown_keys_are_named(key: str) -> None:
    with pytest.raises(ValidationError, match=key):
        AssignerSettings.model_validate({key: -1})


def test_settings_need_none_of_the_extras() -> None:
    """An installation with only the mirror reads the whole configuration without numpy and OR-Tools."""
    code = "import sys, assigner.settings; sys.exit(bool({'numpy', 'ortools', 'scipy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
