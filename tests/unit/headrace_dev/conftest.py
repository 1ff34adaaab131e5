"""Fixtures: isolation from the user's settings, and the command `headrace-dev` in this process."""

from __future__ import annotations

import pytest

from headrace_dev.__main__ import main
from tests.unit.headrace.conftest import Headrace, _no_settings, headrace, in_this_process

__all__ = ["_no_settings", "headrace"]


@pytest.fixture
def headrace_dev(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Headrace:
    """Return a function that runs `headrace-dev` with these arguments in this process."""
    return in_this_process(main, "headrace-dev", monkeypatch, capsys)
