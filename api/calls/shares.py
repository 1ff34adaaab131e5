"""Limit on concurrent use, in total and per name, so that no caller can occupy all slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class CallSlots:
    """Slots with limits; not thread-safe. `most`: total; `most_each`: per name, such as a principal or an
    owner."""

    def __init__(self, most: int, most_each: int) -> None:
        self._most = most
        self._most_each = most_each
        self._all = 0
        self._each = Counter[str]()

    @property
    def count(self) -> int:
        """Number of slots in use."""
        return self._all

    @property
    def is_full(self) -> bool:
        """True if all slots are in use."""
        return self._all >= self._most

    def full_for(self, names: frozenset[str]) -> str:
        """Return one of the names that has reached its limit; empty if none has."""
        return next((name for name in sorted(names) if self._each[name] >= self._most_each), "")

    @contextmanager
    def taken(self, names: frozenset[str]) -> Iterator[None]:
        """Occupy a slot that counts against all these names."""
        self._all += 1
        self._each.update(names)
        try:
            yield
        finally:
            self._all -= 1
            self._each.subtract(names)
            self._each = +self._each
