"""A pytest plugin: Hypothesis reports the first example that fails, without a search for the smallest one."""

from __future__ import annotations

from hypothesis import Phase, settings

_PROFILE = "unshrunk"


def pytest_configure() -> None:
    """Change the profile that `tests/conftest.py` has loaded."""
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile(_PROFILE, settings(), phases=phases, report_multiple_bugs=False)
    settings.load_profile(_PROFILE)
