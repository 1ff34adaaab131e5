"""Memory of a worker: one byte budget, and the buffers that responses are received into.

A fetched batch is sent from the buffer it arrived in, so a buffer is busy until the last of its
batches is acknowledged or dropped. A response is received when there is room for it, and for batches made
of it if the last one's were remade. The clusters that responses come from share the budget: one that holds
less than its share has room, whatever the others hold, so no source can take the memory of another.
Invariant: bytes in buffers and in reframed batches never exceed twice the budget by more than one response
of each cluster (a single batch may be larger than any limit), and with one cluster never the budget itself
by more than that.

Room is counted in full when a response is announced; memory is taken as its bytes arrive, because pages of
a buffer exist once something is written to them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Final

_SMALL: Final = 64 * 1024
"""Responses up to here get a buffer of their own size; larger ones a pooled one."""


class ByteBudget:
    """Number of bytes that may be held. Taking never fails; check `has_room` or `free` first.

    `whole`: the budget that this one is a part of.
    """

    __slots__ = ("_next", "_parts", "is_wanted", "limit", "on_room", "used", "whole")

    def __init__(self, limit: int, whole: ByteBudget | None = None) -> None:
        self.limit = limit
        self.whole = whole
        self.used = 0
        self.is_wanted = False
        """Whether a response waits for room in it."""
        self.on_room: Callable[[], None] | None = None
        """Called after bytes came back."""
        self._parts: list[ByteBudget] = []
        self._next = 0

    def part(self) -> ByteBudget:
        """Return the budget of another cluster that shares this one."""
        part = ByteBudget(self.limit, self)
        self._parts.append(part)
        return part

    @property
    def free(self) -> int:
        """Bytes left; negative when a response was larger than announced."""
        return self.limit - self.used

    def has_room(self, size: int) -> bool:
        """Return whether `size` bytes more fit: into what is free, or into the share of this part."""
        if self.used == 0:
            return True
        if self.whole is None:
            return self.free >= size
        return self.whole.free >= size or self.used + size <= self.whole.share()

    def share(self) -> int:
        """Return the bytes for each part that holds something or wants to."""
        active = sum([1 for part in self._parts if part.used or part.is_wanted])
        return self.limit // max(active, 1)

    def take(self, size: int) -> None:
        """Count `size` bytes more as held."""
        self.used += size
        if self.whole is not None:
            self.whole.used += size

    def give(self, size: int) -> None:
        """Count `size` bytes as held no longer."""
        self.used -= size
        if self.whole is None:
            self.notify()
        else:
            self.whole.used -= size
            self.whole.notify()

    def notify(self) -> None:
        """Let those that wait use the room, another part first each time."""
        if self.on_room is not None:
            self.on_room()
        count = len(self._parts)
        self._next = first = (self._next + 1) % max(count, 1)
        for number in range(count):
            self._parts[(first + number) % count].notify()


class BufferStock:
    """Large buffers of one size that are not in use, for all pools of a budget."""

    __slots__ = ("_free", "_most", "size")

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self._free: list[mmap] = []
        self._most = limit // size if size else 0

    def buffer(self, size: int) -> mmap:
        """Return a buffer of at least that size."""
        if size > self.size:
            return _new(size)
        return self._free.pop() if self._free else _new(self.size)

    def take_back(self, buffer: mmap) -> None:
        """Keep the buffer for the next response if it has the usual size."""
        if len(buffer) == self.size and len(self._free) < self._most:
            self._free.append(buffer)


def _new(size: int) -> mmap:
    return mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)


class Slab:
    """A receive buffer with the number of those who still need it. Starts with one holder."""

    __slots__ = ("_pool", "began_at", "buffer", "holders", "made_bytes")

    def __init__(self, buffer: bytearray | mmap, pool: SlabPool | None) -> None:
        self.buffer = buffer
        self.began_at = 0.0
        """When what lies in it began to arrive, in monotonic seconds."""
        self.holders = 1
        self.made_bytes = 0
        """What the batches that were made of its own take."""
        self._pool = pool

    def retain(self) -> None:
        """One more needs the buffer."""
        self.holders += 1

    def release(self) -> None:
        """One fewer; the last one gives it back."""
        self.holders -= 1
        if self.holders == 0 and self._pool is not None:
            self._pool.take_back(self)
            self._pool = None


class SlabPool:
    """Buffers for the large responses of one cluster. `budget`: its part of the memory."""

    def __init__(self, size: int, budget: ByteBudget, stock: BufferStock | None = None) -> None:
        self._size = size
        self._budget = budget
        self._stock = stock or BufferStock(size, budget.limit)
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._made_bytes = 0
        """What the next response may be made into: as much as the last."""
        budget.on_room = self._serve

    def slab(self, size: int) -> Slab | None:
        """A buffer of at least `size` bytes, on the budget; None when there is no room now.

        Small ones are always to be had, and one of any size while the cluster holds nothing else: what is
        held can then never wait for what waits for it.
        """
        if size <= _SMALL:
            return Slab(bytearray(size), None)
        if not self._has_room(size):
            return None
        buffer = self._stock.buffer(size)
        self._budget.take(len(buffer))
        return Slab(buffer, self)

    def when_free(self, size: int, callback: Callable[[], None]) -> None:
        """Call back, once, when there may be room for that size; first come, first served."""
        self._waiting.append((size, callback))
        self._budget.is_wanted = True

    def take_back(self, slab: Slab) -> None:
        """Called by the slab whose last holder is gone."""
        self._made_bytes = slab.made_bytes
        size = len(slab.buffer)
        if isinstance(slab.buffer, mmap):
            self._stock.take_back(slab.buffer)
        self._budget.give(size)

    def _serve(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            self._waiting.popleft()[1]()
        self._budget.is_wanted = bool(self._waiting)

    def _has_room(self, size: int) -> bool:
        return self._budget.has_room(max(size, self._size) + self._made_bytes)
