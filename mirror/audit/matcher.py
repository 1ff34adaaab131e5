"""Matches the records of a partition with the records of its copy, one by one and in order. Pure.

Source and destination are read in offset order. Each record is compared with its counterpart at the offset
that the offset map contains, or, without a map, with the next record. If the two differ, the record waits in
a table until the other log has a record with the same digest. Records that still wait at the end are missing,
altered or surplus. Memory grows with the number of waiting records, not with the size of the logs.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol

from mirror.audit.sums import RangeSum, content_digest
from mirror.audit.unmatched_records import Unmatched, UnmatchedRecords
from mirror.audit.verdicts import MOST_FINDINGS, Finding, PartitionFindings, Verdict
from mirror.audit.windows import WindowTally
from mirror.protocol.batches.records import Record

ROOM: Final = 50_000
"""Maximum number of records per log that wait for their counterpart (about 20 MB)."""
REPLACED_TIME: Final = -2
"""Placeholder timestamp of records whose timestamp the destination has replaced (LogAppendTime)."""
_KEY_DIGEST_BYTES: Final = 12
_LONGEST_VALUE: Final = 60


class CopyAccount(Protocol):
    """Interface to the records that a lane should have copied, according to its ledger and offset map."""

    def is_expected(self, source: int) -> bool:
        """Return whether a source record should be at the destination. If not, count it."""
        ...

    def origin(self, target: int) -> int | None:
        """Return the source offset of a destination offset, or None if the offset map lacks it."""
        ...

    def place(self, source: int) -> int | None:
        """Return the destination offset of a source offset, or None if the offset map lacks it."""
        ...


@dataclass(frozen=True, slots=True)
class MatchRules:
    """Rules for matching the records of both logs.

    `compares_content`: False if transforms change records. Copies are then identified only by the offset map.
    `source_compacts`, `target_compacts`: whether the topics are compacted. `shares_target`: other producers
    write to the destination topic, too. `sums`: compute sums of the records of both logs. `windows`: counts
    the records by window of event time.
    """

    compares_content: bool = True
    source_compacts: bool = False
    target_compacts: bool = False
    shares_target: bool = False
    sums: bool = False
    windows: WindowTally | None = None
    room: int = ROOM


class Matcher:
    """Matches the records of one partition with those of its copy.

    Append records to `source` and `target` in offset order, and call `match`. After the last record, call
    `finish`. `account`: None without a ledger.
    """

    def __init__(self, rules: MatchRules, account: CopyAccount | None) -> None:
        self._rules = rules
        self._account = account
        self.source: deque[Record] = deque()
        self.target: deque[Record] = deque()
        self.found = PartitionFindings()
        self.source_sum, self.target_sum = RangeSum(), RangeSum()
        """Sums over the expected source records and over the destination records, if `rules.sums` is set."""
        self._windows = rules.windows
        self._absent = UnmatchedRecords(rules.room, "missing", rules.windows)
        self._surplus = UnmatchedRecords(rules.room, "foreign", rules.windows)
        self._by_key: dict[bytes, Unmatched] = {}
        self._last = (-1, -1)
        """Largest source offset and destination offset matched so far."""
        self._last_record: Record | None = None
        """Latest record found at its expected offset."""
        self._is_shifted = False
        """True if the offset map was found to be wrong. The counterpart is then the next record."""

    @property
    def needs_records(self) -> bool:
        """True if equal batches must be decoded too, for checksums or to explain missing records."""
        return self._rules.sums or bool(self._by_key)

    def match_batch(self, last_source: int, last_target: int, count: int, timestamp: int) -> None:
        """Count the records of a source batch that equals the next destination batch."""
        self._last, self._last_record = (last_source, last_target), None
        self.found.counts.equal += count
        self._tally("records", timestamp, count)

    def _tally(self, name: str, timestamp: int, count: int = 1) -> None:
        if self._windows is not None:
            self._windows.count(name, timestamp, count)

    def _note(self, finding: Finding) -> None:
        """Keep a finding for the report."""
        self.found.note(finding)
        if self._windows is not None:
            self._windows.note(finding)

    def _leave_out(self, source: Record) -> None:
        """Skip a source record that is missing in the offset map."""
        self.source.popleft()
        if self._windows is not None:
            self._windows.leave_out(source.timestamp)

    def match(self) -> None:
        """Match records until one of the logs has no buffered record."""
        while self.source and self.target:
            self._match_next(self.source[0], self.target[0])

    def _match_next(self, source: Record, target: Record) -> None:
        if self._account is not None and not self._account.is_expected(source.offset):
            self._leave_out(source)
            return
        origin = self._origin(target) if self._account is not None else source.offset
        is_at_place = origin == source.offset
        if (is_at_place or self._is_shifted) and self._is_equal(source, target):
            self._pop(source, target)
            self._last, self._last_record = (source.offset, target.offset), target
            self.found.counts.equal += 1
            self._tally("records", source.timestamp)
            self.found.counts.misplaced += not is_at_place
            self._is_shifted = not is_at_place
        elif not self._settle_source(source, target) and not self._settle_target(target):
            self._pass(source, target, source.offset if self._is_shifted else origin)

    def _origin(self, target: Record) -> int | None:
        return self._account.origin(target.offset) if self._account is not None else None

    def _pass(self, source: Record, target: Record, origin: int | None) -> None:
        """Add one or both of the next records to those that wait for their counterpart in the other log."""
        if origin is None or origin < source.offset:
            self._pop_target(target)
            self._wait_target(target, origin)
        elif origin > source.offset:
            self._pop(source, None)
            self._wait_source(source)
        else:
            self._pop(source, target)
            missing = self._wait_source(source, has_place=not self._is_shifted)
            surplus = self._wait_target(target, self._origin(target))
            missing.beside, surplus.beside = surplus, missing
            if self._absent.count <= MOST_FINDINGS:
                missing.what = difference(source, target)

    def _pop(self, source: Record, target: Record | None) -> None:
        self.source.popleft()
        if self._by_key:
            self._explain_by_key(source)
        if self._rules.sums:
            self.source_sum.add(source)
        if target is not None:
            self._pop_target(target)

    def _pop_target(self, target: Record) -> None:
        self.target.popleft()
        if self._rules.sums:
            self.target_sum.add(target)

    def _is_equal(self, source: Record, target: Record) -> bool:
        if not self._rules.compares_content:
            return True
        if target.timestamp == REPLACED_TIME:
            return source[2:] == target[2:]
        return source[1:] == target[1:]

    def _settle_source(self, source: Record, target: Record | None = None) -> bool:
        """Match the next source record with a waiting destination record. Return whether one matched.

        `target`: next destination record. If the offset map places the copy after `target`, the waiting
        record is a duplicate, for example from a takeover with at-least-once delivery.
        """
        if not self._surplus or not self._rules.compares_content:
            return False
        if target is not None and self._account is not None and not self._is_shifted:
            place = self._account.place(source.offset)
            if place is not None and place > target.offset:
                return False
        waiting = self._surplus.take(content_digest(source))
        if waiting is None:
            return False
        self._pop(source, None)
        places, stamps = (source.offset, waiting.offset), (source.timestamp, waiting.timestamp)
        self._note_displaced(*places, *stamps, waiting.digest)
        return True

    def _settle_target(self, target: Record) -> bool:
        if not self._absent or not self._rules.compares_content:
            return False
        waiting = self._absent.take(content_digest(target))
        if waiting is None:
            return False
        self._pop_target(target)
        self._by_key.pop(waiting.key, None)
        places, stamps = (waiting.offset, target.offset), (waiting.timestamp, target.timestamp)
        self._note_displaced(*places, *stamps, waiting.digest)
        return True

    def _note_displaced(self, source: int, target: int, stamp: int, target_stamp: int, digest: bytes) -> None:
        """Compare a record with its copy at an unexpected offset, and count the result."""
        counts = self.found.counts
        if target_stamp not in (stamp, REPLACED_TIME):
            counts.altered += 1
            what = f"timestamp {stamp} vs {target_stamp}"
            self._note(Finding(Verdict.ALTERED, source, target, stamp, what))
            return
        counts.equal += 1
        is_in_order = source >= self._last[0] and target >= self._last[1]
        if not is_in_order and not self._is_interchangeable(source, target, stamp, digest):
            counts.reordered += 1
            self._note(Finding(Verdict.ALTERED, source, target, stamp, "order"))
            self._last = (max(source, self._last[0]), max(target, self._last[1]))
            return
        self._tally("records", stamp)
        if self._account is not None and self._account.origin(target) != source:
            counts.misplaced += 1
            self._is_shifted = True
        self._last = (max(source, self._last[0]), max(target, self._last[1]))

    def _is_interchangeable(self, source: int, target: int, stamp: int, digest: bytes) -> bool:
        """Return whether the record equals the previous record, so that exchanging their copies restores the
        order."""
        last, is_later = self._last_record, source > self._last[0]
        return (
            last is not None
            and is_later != (target > self._last[1])
            and last.timestamp in (stamp, REPLACED_TIME)
            and content_digest(last) == digest
        )

    def _wait_source(self, source: Record, *, has_place: bool = False) -> Unmatched:
        """Add a source record to the records that wait for their counterpart. `has_place`: the destination
        has a different record at the expected offset."""
        waiting = Unmatched(source.offset, source.timestamp, content_digest(source))
        if self._rules.target_compacts and not has_place and source.key is not None:
            if source.value is None:  # the log cleaner removes tombstones
                waiting.is_done = True
                self.found.counts.target_compacted += 1
                self._tally("explained", source.timestamp)
                return waiting
            waiting.key = _key_digest(source.key)
        self._absent.add(waiting)
        if waiting.key and not waiting.is_done:
            self._by_key[waiting.key] = waiting
        return waiting

    def _explain_by_key(self, source: Record) -> None:
        """Explain a missing record by a later record with the same key. Compaction removes the earlier
        record."""
        waiting = self._by_key.pop(_key_digest(source.key), None) if source.key is not None else None
        if waiting is not None and not waiting.is_done:
            self._absent.remove(waiting)
            self.found.counts.target_compacted += 1
            self._tally("explained", waiting.timestamp)

    def _wait_target(self, target: Record, origin: int | None) -> Unmatched:
        waiting = Unmatched(target.offset, target.timestamp, content_digest(target))
        if origin is not None and self._rules.source_compacts:
            waiting.is_done = True
            self.found.counts.source_compacted += 1
            self._tally("explained", target.timestamp)
        elif origin is None and self._rules.shares_target and self._account is not None:
            waiting.is_done = True
            self.found.counts.unrelated += 1
            self._tally("explained", target.timestamp)
        elif not self._rules.compares_content:
            waiting.is_done = True
            self.found.counts.duplicated += 1
            self._note(Finding(Verdict.DUPLICATED, -1, target.offset, target.timestamp))
        else:
            self._surplus.add(waiting)
        return waiting

    def match_rest(self) -> None:
        """Match the remaining records of one log after the end of the other log."""
        while self.source:
            source = self.source[0]
            if self._account is not None and not self._account.is_expected(source.offset):
                self._leave_out(source)
            elif not self._settle_source(source):
                self._pop(source, None)
                self._wait_source(source)
        while self.target:
            target = self.target[0]
            if not self._settle_target(target):
                self._pop_target(target)
                self._wait_target(target, self._origin(target))

    def finish(self) -> Surplus:
        """Return the destination records without a source record, after both logs have ended."""
        self.match()
        self.match_rest()
        return self._judge()

    def _judge(self) -> Surplus:
        found, counts = self.found, self.found.counts
        for waiting in self._absent.in_order():
            beside = waiting.beside
            if beside is not None and not beside.is_done:
                self._surplus.remove(beside)
                counts.altered += 1
                places = waiting.offset, beside.offset
                self._note(Finding(Verdict.ALTERED, *places, waiting.timestamp, waiting.what))
            else:
                counts.missing += 1
                self._note(Finding(Verdict.MISSING, waiting.offset, -1, waiting.timestamp))
        lost, strange = self._absent.dropped, self._surplus.dropped
        found.at_least = bool(lost or strange)
        counts.altered += min(lost, strange)
        counts.missing += max(lost - strange, 0)
        counts.foreign += max(strange - lost, 0)
        return Surplus(found, self._surplus, self._windows)


class Surplus:
    """Records that exist only at the destination. Call `show` for each source record, then `judge`."""

    def __init__(
        self, found: PartitionFindings, waiting: UnmatchedRecords, windows: WindowTally | None = None
    ) -> None:
        self._found = found
        self._windows = windows
        self._waiting = waiting.in_order()
        self._wanted = {waiting.digest for waiting in self._waiting}
        self._origins: dict[bytes, int] = {}

    def __bool__(self) -> bool:
        """Return whether any surplus record still lacks its original."""
        return len(self._origins) < len(self._wanted)

    def show(self, source: Record) -> None:
        """Check whether a source record is the original of a record that exists only at the destination."""
        digest = content_digest(source)
        if digest in self._wanted:
            self._origins.setdefault(digest, source.offset)

    def take(self, source: Record) -> bool:
        """Match a source record that the ledger lists as not copied with an equal surplus record. Return
        False if there is none."""
        digest = content_digest(source)
        if digest not in self._wanted:
            return False
        waiting = next((waiting for waiting in self._waiting if waiting.digest == digest), None)
        if waiting is None:
            return False
        self._waiting.remove(waiting)
        self._found.counts.equal += 1
        self._found.counts.misplaced += 1
        if self._windows is not None:
            self._windows.leave_out(source.timestamp, -1)
            self._windows.count("records", source.timestamp)
        return True

    def judge(self) -> PartitionFindings:
        """Return the surplus records: duplicated if the source has an equal record, otherwise foreign."""
        for waiting in self._waiting:
            origin = self._origins.get(waiting.digest)
            verdict = Verdict.FOREIGN if origin is None else Verdict.DUPLICATED
            if origin is None:
                self._found.counts.foreign += 1
            else:
                self._found.counts.duplicated += 1
            source = -1 if origin is None else origin
            finding = Finding(verdict, source, waiting.offset, waiting.timestamp)
            self._found.note(finding)
            if self._windows is not None:
                self._windows.note(finding)
        return self._found


def difference(source: Record, target: Record) -> str:
    """Return the fields in which two records differ, with their values."""
    names = ["key", "value", "headers"]
    if target.timestamp != REPLACED_TIME:
        names.insert(0, "timestamp")
    return "; ".join(
        f"{name} {_short(getattr(source, name))} vs {_short(getattr(target, name))}"
        for name in names
        if getattr(source, name) != getattr(target, name)
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}…"


def _key_digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=_KEY_DIGEST_BYTES).digest()
