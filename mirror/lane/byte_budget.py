"""Memory limit of a worker in bytes, shared fairly by its source clusters."""

from __future__ import annotations

from collections.abc import Callable


class ByteBudget:
    """Memory limit in bytes, with the number of bytes used. `take` never fails: callers first check
    `has_room` or `free`. `whole`: budget of which this budget is a part, if any."""

    __slots__ = ("_next", "_parts", "is_wanted", "limit", "on_room", "used", "whole")

    def __init__(self, limit: int, whole: ByteBudget | None = None) -> None:
        self.limit = limit
        self.whole = whole
        self.used = 0
        self.is_wanted = False
        """True if a response waits for free memory in this budget."""
        self.on_room: Callable[[], None] | None = None
        """Callback that is called after memory becomes free."""
        self._parts: list[ByteBudget] = []
        self._next = 0

    def part(self) -> ByteBudget:
        """Return a new budget for another cluster that is part of this budget."""
        part = ByteBudget(self.limit, self)
        self._parts.append(part)
        return part

    @property
    def free(self) -> int:
        """Number of free bytes; negative if `used` exceeds the limit."""
        return self.limit - self.used

    def has_room(self, size: int) -> bool:
        """Return whether `size` more bytes fit into the whole budget, or into the fair share of this part."""
        if self.used == 0:
            return True
        if self.whole is None:
            return self.free >= size
        return self.whole.free >= size or self.used + size <= self.whole.share()

    def share(self) -> int:
        """Return the fair share of each part in bytes: the limit divided by the number of active parts."""
        active = sum([1 for part in self._parts if part.used or part.is_wanted])
        return self.limit // max(active, 1)

    def take(self, size: int) -> None:
        """Count `size` more bytes as used."""
        self.used += size
        if self.whole is not None:
            self.whole.used += size

    def give(self, size: int) -> None:
        """Count `size` bytes as free again."""
        self.used -= size
        if self.whole is None:
            self.notify()
        else:
            self.whole.used -= size
            self.whole.notify()

    def notify(self) -> None:
        """Call the callbacks of the parts that wait for memory. Each call starts with a different part."""
        if self.on_room is not None:
            self.on_room()
        count = len(self._parts)
        self._next = first = (self._next + 1) % max(count, 1)
        for number in range(count):
            self._parts[(first + number) % count].notify()
