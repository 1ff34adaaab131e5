"""A pytest plugin: Hypothesis reports the first failing example and does not shrink it."""

from __future__ import annotations

from hypothesis import Phase, settings

_PROFILE = "unshrunk"


def pytest_configure() -> None:
    """Derive a profile from the one that `tests/conftest.py` loads."""
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile(_PROFILE, settings(), phases=phases, report_multiple_bugs=False)
    settings.load_profile(_PROFILE)
