"""Compares a partition with its copy: reads both logs and matches their records.

The copy may grow during the comparison. Source records that existed at the start of the comparison must
arrive at the destination. Later records are compared only up to the end of the copy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from mirror.audit.account import LedgerAccount
from mirror.audit.matcher import Matcher, MatchRules, Surplus
from mirror.audit.reader import LogCursor, LogRange, equal_contents
from mirror.audit.record_tally import Uncopied
from mirror.audit.sums import RangeSum
from mirror.audit.verdicts import PartitionFindings

_PATIENCE_SECONDS: Final = 5.0
"""Seconds without growth after which the remaining records of a copy count as missing."""
_LOOK_SECONDS: Final = 0.2

CurrentEnd = Callable[[LogRange], Awaitable[int]]
"""Callback that returns the current end offset of the source or destination log."""


@dataclass
class Comparison:
    """Result of comparing one partition with its copy.

    `source_end`, `target_end`: ends of the compared ranges. `uncopied`: number of source records that were
    not compared because the offset map lacks them. `source_sum`, `target_sum`: present if `MatchRules.sums`
    is set.
    """

    found: PartitionFindings = field(default_factory=PartitionFindings)
    source_end: int = 0
    target_end: int = 0
    equal_batches: int = 0
    uncopied: Uncopied = field(default_factory=Uncopied)
    source_sum: RangeSum = field(default_factory=RangeSum)
    target_sum: RangeSum = field(default_factory=RangeSum)


async def compare(
    source: LogRange,
    target: LogRange,
    account: LedgerAccount | None,
    rules: MatchRules | None = None,
    current_end: CurrentEnd | None = None,
    origins_end: int = 0,
) -> Comparison:
    """Compare every source record with its copy.

    `current_end`: callback that returns the current end of a log; None if the logs do not grow.
    `origins_end`: end of the source range that may contain originals of surplus destination records.

    Raises Unreachable, CorruptData.
    """
    run = _Run(source, target, account, rules or MatchRules(), current_end)
    await run.read()
    surplus = run.matcher.finish()
    if surplus:
        await _explain(
            surplus,
            replace(source, end=max(run.source_cursor.end, origins_end)),
            account,
            run.source_cursor.end,
        )
    uncopied = account.uncopied() if account is not None else Uncopied()
    if run.windows is not None:
        run.windows.settle(uncopied.missing)
    ends = min(max(run.source_cursor.position, source.end), run.source_cursor.end), run.target_cursor.end
    sums = run.matcher.source_sum, run.matcher.target_sum
    return Comparison(surplus.judge(), *ends, run.equal_batches, uncopied, *sums)


async def _explain(
    surplus: Surplus, source: LogRange, account: LedgerAccount | None, compared_end: int
) -> None:
    """Read the source again to find originals of records that exist only at the destination.

    `compared_end`: end of the compared range.
    """
    cursor = LogCursor(source)
    has_missing = account is not None and account.uncopied().missing > 0
    while (surplus or has_missing) and (batch := await cursor.peek()) is not None:
        cursor.pop()
        if account is not None and account.is_left_out(batch.first, batch.next):
            continue
        for record in batch.records(source.start, source.end):
            if (
                account is not None
                and record.offset < compared_end
                and account.is_missing(record.offset)
                and surplus.take(record)
            ):
                account.note_arrived(record.offset)
            else:
                surplus.show(record)


class _Run:
    """One pass over the source and the destination log of a partition."""

    def __init__(
        self,
        source: LogRange,
        target: LogRange,
        account: LedgerAccount | None,
        rules: MatchRules,
        current_end: CurrentEnd | None,
    ) -> None:
        self.source_cursor, self.target_cursor = LogCursor(source), LogCursor(target)
        self.matcher = Matcher(rules, account)
        self.equal_batches = 0
        self._source, self._target = source, target
        self._account = account
        self._rules = rules
        self.windows = rules.windows
        self._current_end = current_end
        self._is_source_newer = False

    async def read(self) -> None:
        """Compare both logs up to their ends."""
        while True:
            has_source, has_target = await self._has_source(), await self._has_target()
            if has_source and has_target:
                if not await self._match_whole():
                    self._open()
                    self.matcher.match()
            elif has_source and self._current_end is not None:
                if self._is_newer():
                    self.matcher.source.clear()  # written since the start, and not copied yet
                    return
                if not await self._extend_target():
                    await self._read_rest()
                    return
            elif not has_target or not await self._extend_source():
                await self._read_rest()
                return

    async def _read_rest(self) -> None:
        """Match the remaining records of one log after the other log has ended."""
        while await self._has_source() or await self._has_target():
            self._open()
            if self.matcher.source and self.matcher.source[0].offset >= self._source.end:
                self.matcher.source.clear()
            self.matcher.match_rest()

    def _open(self) -> None:
        """Decode the next batch of each log that has no unmatched decoded records."""
        matcher = self.matcher
        if not matcher.source and self.source_cursor.has_batch:
            read = self.source_cursor.pop()
            records = read.records(self._source.start, self.source_cursor.end)
            matcher.source.extend(records)
            if self.windows is not None:
                self.windows.count_payload(records, read.payload_bytes(len(records)))
        if not matcher.target and self.target_cursor.has_batch:
            batch = self.target_cursor.pop()
            records = batch.records(self._target.start, self.target_cursor.end, keeps_append_time=False)
            matcher.target.extend(records)

    def _is_newer(self) -> bool:
        """Return whether the next source record was written after the comparison started."""
        if self.matcher.source:
            return self.matcher.source[0].offset >= self._source.end
        return self.source_cursor.first >= self._source.end

    async def _has_source(self) -> bool:
        """Return whether the source has more records to compare. Counts batches skipped as a whole."""
        account = self._account
        while not self.matcher.source:
            batch = await self.source_cursor.peek()
            if batch is None:
                return False
            first, end = max(batch.first, self._source.start), min(batch.next, self.source_cursor.end)
            if account is None or batch.header is None or not account.is_left_out(first, end):
                return True
            count = min(batch.header.record_count, end - first)
            account.note_left_out(first, count)
            if self.windows is not None:
                self.windows.leave_out(batch.header.base_timestamp, count)
                self.windows.count("stored_bytes", batch.header.base_timestamp, batch.payload_bytes(count))
            self.source_cursor.pop()
        return True

    async def _has_target(self) -> bool:
        return bool(self.matcher.target) or await self.target_cursor.peek() is not None

    async def _match_whole(self) -> bool:
        """Compare the next batches of both logs as bytes. Return False if their records must be compared."""
        matcher, account = self.matcher, self._account
        if matcher.source or matcher.target or matcher.needs_records or not self._rules.compares_content:
            return False
        source, target = await self.source_cursor.peek(), await self.target_cursor.peek()
        if source is None or target is None or source.header is None:
            return False
        is_inside = source.first >= self._source.start and source.next <= self.source_cursor.end
        is_inside = is_inside and target.first >= self._target.start and target.next <= self.target_cursor.end
        if not is_inside or not equal_contents(source, target):
            return False
        times = source.header.base_timestamp, source.header.max_timestamp
        if self.windows is not None and not self.windows.is_one(*times):
            return False
        if account is not None and not account.is_copy(source.first, source.next, target.first, target.next):
            return False
        self.source_cursor.pop()
        self.target_cursor.pop()
        matcher.match_batch(source.next - 1, target.next - 1, source.header.record_count, times[0])
        if self.windows is not None:
            self.windows.count("stored_bytes", times[0], source.payload_bytes(source.header.record_count))
        self.equal_batches += 1
        return True

    async def _extend_source(self) -> bool:
        """Read the source up to its current end. Return whether there are more source records.

        Records after the end were written after the end was read.
        """
        if self._current_end is None or self._is_source_newer:
            return False
        self.source_cursor.extend(await self._current_end(self._source))
        self._is_source_newer = True
        return await self._has_source()

    async def _extend_target(self) -> bool:
        """Wait for more destination records while the log grows. Return whether more records have arrived."""
        assert self._current_end is not None, "only growing logs are extended"
        loop = self._target.cluster.loop
        until = loop.now() + _PATIENCE_SECONDS
        while not await self._has_target():
            end = await self._current_end(self._target)
            if end > self.target_cursor.end:
                self.target_cursor.extend(end)
                self._is_source_newer = False
                until = loop.now() + _PATIENCE_SECONDS
            elif loop.now() > until:
                return False
            else:
                await loop.sleep(_LOOK_SECONDS)
        return True
