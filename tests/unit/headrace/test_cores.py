"""Test that the number of worker processes depends on the cores of the container instead of the host."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.process.cores import usable_cores

_NOWHERE = Path("/nonexistent")


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make eight cores available to the process."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(8)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)


def _groups(folder: Path, limits: Mapping[str, str]) -> Path:
    """Create control group files."""
    for name, text in limits.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def test_without_control_groups_all_that_we_are_bound_to() -> None:
    assert usable_cores(_NOWHERE, _NOWHERE) == 8


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("10000 100000\n", 1),
        ("max 100000\n", 8),
        ("6400000 100000\n", 8),
    ],
)
def test_a_container_has_what_its_limit_says(tmp_path: Path, text: str, cores: int) -> None:
    assert usable_cores(_groups(tmp_path, {"cpu.max": text}), _NOWHERE) == cores


@pytest.mark.parametrize(("quota", "cores"), [("300000\n", 3), ("-1\n", 8)])
def test_a_limit_of_version_1(tmp_path: Path, quota: str, cores: int) -> None:
    groups = _groups(tmp_path, {"cpu/cpu.cfs_quota_us": quota, "cpu/cpu.cfs_period_us": "100000\n"})
    assert usable_cores(groups, _NOWHERE) == cores


def test_the_smallest_limit_among_our_group_and_those_above_it_counts(tmp_path: Path) -> None:
    groups = _groups(
        tmp_path / "groups",
        {
            "system/cpu.max": "400000 100000\n",
            "system/unit/cpu.max": "max 100000\n",
            "other/cpu.max": "100000 100000\n",
        },
    )
    membership = tmp_path / "cgroup"
    membership.write_text("9:name=systemd:/\n0::/system/unit\n")
    assert usable_cores(groups, membership) == 4
