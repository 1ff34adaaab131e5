"""Growth factor for recorded loads."""

from __future__ import annotations

from typing import Final

from mirror.errors import InvalidRequest

_MOST: Final = 1_000.0


def check_growth(growth: float) -> None:
    """Raise InvalidRequest unless the load factor is above 0 and plausible.

    NaN and infinity are rejected.
    """
    if not 0 < growth <= _MOST:
        raise InvalidRequest(
            f"the growth is {growth}; it must be above 0 and at most {_MOST:g}", advice="1.3 means 30 % more"
        )
