"""The range of time of a question."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Epoch milliseconds, `since_ms` included and `until_ms` not. Raises InvalidRequest when empty."""

    since_ms: int
    until_ms: int

    def __post_init__(self) -> None:
        if self.until_ms <= self.since_ms:
            raise InvalidRequest(f"nothing lies between {self.since_ms} and {self.until_ms}")

    @classmethod
    def up_to(cls, at_ms: int, length_ms: int) -> TimeRange:
        """The `length_ms` that end with `at_ms`, which itself belongs to it.

        A sample at `at_ms` speaks of the time before it, so it is part of the range that ends there.
        """
        return cls(at_ms - length_ms + 1, at_ms + 1)

    @property
    def length_ms(self) -> int:
        """How long it is."""
        return self.until_ms - self.since_ms
