"""Receive buffers of a worker for Fetch responses, within its memory limit.

A batch is sent from the buffer in which it was received, so a buffer is in use until the last of its batches
is acknowledged or dropped. A response is received if there is room for it. If the batches of the last
response were rebuilt, there must also be room for rebuilt batches. All source clusters share the budget. A
cluster that uses less than its share always has room, so no source can take the memory of another. Invariant:
buffers and rebuilt batches never exceed twice the budget by more than one response per cluster (a single
batch may be larger than any limit). With one cluster, the excess over the budget is at most one response.

The full size is reserved when a response is announced. Memory is used as the bytes arrive, because the pages
of a buffer are allocated on the first write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Final

from mirror.lane.byte_budget import ByteBudget

_SMALL: Final = 64 * 1024
"""Size in bytes up to which a response has its own buffer; larger responses use pooled buffers."""


class BufferStock:
    """Stock of unused large buffers of one size, shared by the buffer pools of all clusters."""

    __slots__ = ("_free", "_most", "size")

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self._free: list[mmap] = []
        self._most = limit // size if size else 0

    def buffer(self, size: int) -> mmap:
        """Take a buffer of at least that size from the stock, or create one."""
        if size > self.size:
            return _new(size)
        return self._free.pop() if self._free else _new(self.size)

    def take_back(self, buffer: mmap) -> None:
        """Put a buffer back into the stock if it has the standard size."""
        if len(buffer) == self.size and len(self._free) < self._most:
            self._free.append(buffer)


def _new(size: int) -> mmap:
    return mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)


class ReceiveBuffer:
    """A reference-counted receive buffer. Starts with one reference."""

    __slots__ = ("_pool", "began_at", "buffer", "holders", "made_bytes")

    def __init__(self, buffer: bytearray | mmap, pool: BufferPool | None) -> None:
        self.buffer = buffer
        self.began_at = 0.0
        """Time at which the buffer's contents began to arrive, in monotonic seconds."""
        self.holders = 1
        self.made_bytes = 0
        """Total size of the batches rebuilt from the buffer's contents."""
        self._pool = pool

    def retain(self) -> None:
        """Increment the reference count."""
        self.holders += 1

    def release(self) -> None:
        """Decrement the reference count. At zero, return the buffer to its pool."""
        self.holders -= 1
        if self.holders == 0 and self._pool is not None:
            self._pool.take_back(self)
            self._pool = None


class BufferPool:
    """Creates receive buffers for large responses of one cluster, within its part of the memory budget."""

    def __init__(self, size: int, budget: ByteBudget, stock: BufferStock | None = None) -> None:
        self._size = size
        self._budget = budget
        self._stock = stock or BufferStock(size, budget.limit)
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._made_bytes = 0
        """Size of the batches rebuilt from the last response, as an estimate for the next response."""
        budget.on_room = self._serve

    def slab(self, size: int) -> ReceiveBuffer | None:
        """Return a receive buffer of at least `size` bytes, or None if the budget has no room. To prevent
        deadlocks, the result is never None for small sizes or while the cluster uses no other buffer."""
        if size <= _SMALL:
            return ReceiveBuffer(bytearray(size), None)
        if not self._has_room(size):
            return None
        buffer = self._stock.buffer(size)
        self._budget.take(len(buffer))
        return ReceiveBuffer(buffer, self)

    def when_free(self, size: int, callback: Callable[[], None]) -> None:
        """Call `callback` when `size` bytes of memory may be free. Callers are served in order."""
        self._waiting.append((size, callback))
        self._budget.is_wanted = True

    def take_back(self, slab: ReceiveBuffer) -> None:
        """Take back a buffer whose reference count is zero, and free its memory in the budget."""
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
