"""How much larger the loads of a past are taken to be."""

from __future__ import annotations

from typing import Final

from mirror.errors import InvalidRequest

_MOST: Final = 1_000.0


def check_growth(growth: float) -> None:
    """A factor on every load. Raises InvalidRequest when it is not above 0 or beyond what any service grows
    by, which NaN and infinities are."""
    if not 0 < growth <= _MOST:
        raise InvalidRequest(
            f"the growth is {growth}; it must be above 0 and at most {_MOST:g}", advice="1.3 means 30 % more"
        )
