"""Memory of a worker: one byte budget, and the buffers that responses are received into.

A fetched batch is sent from the buffer it arrived in, so a buffer is busy until the last of its
batches is acknowledged or dropped. A response is received when there is room for it, and for batches made
of it if the last one's were remade. Invariant: bytes in buffers and in reframed batches never exceed the
budget by more than one response (a single batch may be larger than any limit).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

_SMALL: Final = 64 * 1024
"""Responses up to here get a buffer of their own size; larger ones a pooled one."""


class ByteBudget:
    """How many bytes may be held. Taking never fails; who takes looks at `free` first."""

    __slots__ = ("limit", "on_room", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.on_room: Callable[[], None] | None = None
        """Called after bytes came back."""

    @property
    def free(self) -> int:
        """Bytes left; negative when a response was larger than announced."""
        return self.limit - self.used

    def take(self, size: int) -> None:
        """`size` bytes more are held now."""
        self.used += size

    def give(self, size: int) -> None:
        """`size` bytes are held no more."""
        self.used -= size
        if self.on_room is not None:
            self.on_room()


class Slab:
    """A receive buffer with the number of those who still need it. Starts with one holder."""

    __slots__ = ("_pool", "began_at", "buffer", "holders", "made_bytes")

    def __init__(self, buffer: bytearray, pool: SlabPool | None) -> None:
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
    """Buffers of one size for large responses, used again and again."""

    def __init__(self, size: int, budget: ByteBudget) -> None:
        self._size = size
        self._budget = budget
        self._free: list[bytearray] = []
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._made_bytes = 0
        """What the next response may be made into: as much as the last."""
        budget.on_room = self._serve

    def slab(self, size: int) -> Slab | None:
        """A buffer of at least `size` bytes, on the budget; None when there is no room now.

        Small ones are always to be had, and one of any size while nothing else is held: what is held
        can then never wait for what waits for it.
        """
        if size <= _SMALL:
            return Slab(bytearray(size), None)
        if not self._has_room(size):
            return None
        if size <= self._size:
            buffer = self._free.pop() if self._free else bytearray(self._size)
        else:
            buffer = bytearray(size)
        self._budget.take(len(buffer))
        return Slab(buffer, self)

    def when_free(self, size: int, callback: Callable[[], None]) -> None:
        """Call back, once, when there may be room for that size; first come, first served."""
        self._waiting.append((size, callback))

    def take_back(self, slab: Slab) -> None:
        """Called by the slab whose last holder is gone."""
        self._made_bytes = slab.made_bytes
        if len(slab.buffer) == self._size:
            self._free.append(slab.buffer)
        self._budget.give(len(slab.buffer))

    def _serve(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            self._waiting.popleft()[1]()

    def _has_room(self, size: int) -> bool:
        return self._budget.used == 0 or self._budget.free >= max(size, self._size) + self._made_bytes
