"""Hypothesis profiles: `make test` draws a tenth of the examples of `make test-all`."""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, settings

DEEP: Final = "deep"
QUICK: Final = "quick"
_DEFAULT: Final = 100
_SHARE_OF_QUICK: Final = 10
_FEWEST: Final = 5


def register_profiles() -> None:
    """Register both profiles and load the deep one; `--hypothesis-profile=quick` selects the other.

    Neither has a deadline, since the duration of an example depends on the load of the machine.
    """
    for name in (DEEP, QUICK):
        settings.register_profile(
            name,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
            max_examples=_scaled(_DEFAULT, name),
        )
    settings.load_profile(DEEP)


def examples(count: int) -> int:
    """Return the number of examples to draw in the current profile, of `count` in the deep profile."""
    return _scaled(count, settings.get_current_profile_name())


def _scaled(count: int, profile: str) -> int:
    return count if profile == DEEP else min(count, max(_FEWEST, count // _SHARE_OF_QUICK))
