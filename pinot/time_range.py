"""Time range of a query."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Time range in epoch milliseconds, `since_ms` included and `until_ms` excluded. Raises InvalidRequest if
    empty."""

    since_ms: int
    until_ms: int

    def __post_init__(self) -> None:
        if self.until_ms <= self.since_ms:
            raise InvalidRequest(f"empty time range: {self.since_ms} to {self.until_ms}")

    @classmethod
    def up_to(cls, at_ms: int, length_ms: int) -> TimeRange:
        """Return the range of `length_ms` that ends with `at_ms` (inclusive).

        A sample at `at_ms` covers the time before it, so it belongs to the range that ends there.
        """
        return cls(at_ms - length_ms + 1, at_ms + 1)

    @property
    def length_ms(self) -> int:
        """Length of the range in milliseconds."""
        return self.until_ms - self.since_ms
