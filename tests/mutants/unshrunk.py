"""A pytest plugin: Hypothesis reports the first failing example and does not shrink it."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Change the present profile; its name stays, as `tests.examples` goes by it."""
    name, phases = settings.get_current_profile_name(), (Phase.explicit, Phase.generate)
    settings.register_profile(name, settings.get_profile(name), phases=phases, report_multiple_bugs=False)
    settings.load_profile(name)
