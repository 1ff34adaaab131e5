"""Keeps records of one log that wait for their counterpart in the other log."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.audit.windows import WindowTally


@dataclass(slots=True, eq=False)
class Unmatched:
    """A record for which no counterpart was found so far. `beside`: the record of the other log at the
    corresponding position. `key`: digest of the record's key, if compaction of the copy may explain the
    missing record."""

    offset: int
    timestamp: int
    digest: bytes
    what: str = ""
    beside: Unmatched | None = None
    key: bytes = b""
    is_done: bool = False


class UnmatchedRecords:
    """Records of one log that wait for their counterpart in the other log. Limited in number."""

    def __init__(self, room: int, dropped_as: str, windows: WindowTally | None) -> None:
        self._room = room
        self._dropped_as = dropped_as
        self._windows = windows
        self._by_digest: dict[bytes, list[Unmatched]] = {}
        self.count = 0
        self.dropped = 0
        """Number of records that exceeded the maximum and were only counted."""

    def __bool__(self) -> bool:
        return self.count > 0

    def in_order(self) -> list[Unmatched]:
        """Return the waiting records in order of their offsets."""
        found = [waiting for same in self._by_digest.values() for waiting in same]
        return sorted(found, key=lambda waiting: waiting.offset)

    def add(self, waiting: Unmatched) -> None:
        """Add a waiting record. At the maximum, only count the record."""
        if self.count >= self._room:
            self.dropped += 1
            waiting.is_done = True
            if self._windows is not None:
                self._windows.count(self._dropped_as, waiting.timestamp)
            return
        self._by_digest.setdefault(waiting.digest, []).append(waiting)
        self.count += 1

    def take(self, digest: bytes) -> Unmatched | None:
        """Remove and return the first waiting record with this content, or None."""
        same = self._by_digest.get(digest)
        return self.remove(same[0]) if same else None

    def remove(self, waiting: Unmatched) -> Unmatched:
        """Remove a waiting record, and return it."""
        same = self._by_digest[waiting.digest]
        same.remove(waiting)
        if not same:
            del self._by_digest[waiting.digest]
        waiting.is_done = True
        self.count -= 1
        return waiting
