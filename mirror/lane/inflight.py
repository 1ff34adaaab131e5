"""Contiguous acknowledgement: which source offset is safe to resume from.

Invariant: `safe_offset` never passes a run that was sent and not acknowledged, and never goes back.
Runs are registered before they are sent, in offset order; acknowledgements come in any order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class InflightRun:
    """Records sent together. `next_offset`: the source offset after them."""

    next_offset: int
    oldest_timestamp_ms: int
    size_bytes: int
    is_acknowledged: bool = False


class Inflight:
    """The runs of one lane between sending and acknowledgement."""

    def __init__(self, position: int) -> None:
        self._runs: deque[InflightRun] = deque()
        self._safe_offset = position
        self._position = position
        self._bytes = 0

    @property
    def safe_offset(self) -> int:
        """Everything below is at the destination."""
        return self._safe_offset

    @property
    def position(self) -> int:
        """Everything below has been sent."""
        return self._position

    @property
    def size_bytes(self) -> int:
        """Bytes sent and not yet acknowledged."""
        return self._bytes

    def __len__(self) -> int:
        """Runs that hold the safe offset back."""
        return len(self._runs)

    @property
    def oldest_timestamp_ms(self) -> int | None:
        """Record timestamp of the oldest run that is not acknowledged."""
        return self._runs[0].oldest_timestamp_ms if self._runs else None

    def register(self, next_offset: int, oldest_timestamp_ms: int, size_bytes: int) -> InflightRun:
        """Note a run that is about to be sent; hand the result to `acknowledge`."""
        assert next_offset > self._position, "runs are registered in offset order"
        run = InflightRun(next_offset, oldest_timestamp_ms, size_bytes)
        self._runs.append(run)
        self._position = next_offset
        self._bytes += size_bytes
        return run

    def skip(self, next_offset: int) -> None:
        """Advance over offsets that have nothing to send."""
        if next_offset > self._position:
            self._position = next_offset
            if not self._runs:
                self._safe_offset = next_offset

    def acknowledge(self, run: InflightRun) -> None:
        """The destination stored the run. Late answers for forgotten runs change nothing."""
        if run.is_acknowledged:
            return
        run.is_acknowledged = True
        if not self._runs:
            return
        while self._runs and self._runs[0].is_acknowledged:
            done = self._runs.popleft()
            self._bytes -= done.size_bytes
            self._safe_offset = done.next_offset
        if not self._runs:
            self._safe_offset = self._position

    def rewind(self) -> int:
        """Forget everything unacknowledged; returns the offset to read from again.

        Acknowledgements of forgotten runs may still arrive; they no longer count.
        """
        for run in self._runs:
            run.is_acknowledged = True
        self._runs.clear()
        self._bytes = 0
        self._position = self._safe_offset
        return self._safe_offset
