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

Look = Callable[[LogRange], Awaitable[int]]
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
    look: Look | None = None,
    origins_end: int = 0,
) -> Comparison:
    """Compare every source record with its copy.

    `look`: callback that returns the current end of a log; None if the logs do not grow. `origins_end`: end
    of the source range that may contain originals of surplus destination records.

    Raises Unreachable, CorruptData.
    """
    run = _Run(source, target, account, rules or MatchRules(), look)
    await run.read()
    surplus = run.matcher.finish()
    if surplus:
        await _explain(surplus, replace(source, end=max(run.here.end, origins_end)), account, run.here.end)
    uncopied = account.uncopied() if account is not None else Uncopied()
    if run.windows is not None:
        run.windows.settle(uncopied.missing)
    ends = min(max(run.here.position, source.end), run.here.end), run.there.end
    sums = run.matcher.source_sum, run.matcher.target_sum
    return Comparison(surplus.judge(), *ends, run.equal_batches, uncopied, *sums)


async def _explain(
    surplus: Surplus, source: LogRange, account: LedgerAccount | None, compared_end: int
) -> None:
    """Read the source again to find originals of records that exist only at the destination.

    `compared_end`: end of the compared range.
    """
    here = LogCursor(source)
    has_missing = account is not None and account.uncopied().missing > 0
    while (surplus or has_missing) and (batch := await here.peek()) is not None:
        here.pop()
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
        look: Look | None,
    ) -> None:
        self.here, self.there = LogCursor(source), LogCursor(target)
        self.matcher = Matcher(rules, account)
        self.equal_batches = 0
        self._source, self._target = source, target
        self._account = account
        self._rules = rules
        self.windows = rules.windows
        self._look = look
        self._is_source_newer = False

    async def read(self) -> None:
        """Compare both logs up to their ends."""
        while True:
            has_source, has_target = await self._has_source(), await self._has_target()
            if has_source and has_target:
                if not await self._match_whole():
                    self._open()
                    self.matcher.match()
            elif has_source and self._look is not None:
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
        if not matcher.source and self.here.has_batch:
            read = self.here.pop()
            records = read.records(self._source.start, self.here.end)
            matcher.source.extend(records)
            if self.windows is not None:
                self.windows.count_payload(records, read.payload_bytes(len(records)))
        if not matcher.target and self.there.has_batch:
            batch = self.there.pop()
            records = batch.records(self._target.start, self.there.end, keeps_append_time=False)
            matcher.target.extend(records)

    def _is_newer(self) -> bool:
        """Return whether the next source record was written after the comparison started."""
        if self.matcher.source:
            return self.matcher.source[0].offset >= self._source.end
        return self.here.first >= self._source.end

    async def _has_source(self) -> bool:
        """Return whether the source has more records to compare. Counts batches skipped as a whole."""
        account = self._account
        while not self.matcher.source:
            batch = await self.here.peek()
            if batch is None:
                return False
            first, end = max(batch.first, self._source.start), min(batch.next, self.here.end)
            if account is None or batch.header is None or not account.is_left_out(first, end):
                return True
            count = min(batch.header.record_count, end - first)
            account.note_left_out(first, count)
            if self.windows is not None:
                self.windows.leave_out(batch.header.base_timestamp, count)
                self.windows.count("stored_bytes", batch.header.base_timestamp, batch.payload_bytes(count))
            self.here.pop()
        return True

    async def _has_target(self) -> bool:
        return bool(self.matcher.target) or await self.there.peek() is not None

    async def _match_whole(self) -> bool:
        """Compare the next batches of both logs as bytes. Return False if their records must be compared."""
        matcher, account = self.matcher, self._account
        if matcher.source or matcher.target or matcher.needs_records or not self._rules.compares_content:
            return False
        here, there = await self.here.peek(), await self.there.peek()
        if here is None or there is None or here.header is None:
            return False
        is_inside = here.first >= self._source.start and here.next <= self.here.end
        is_inside = is_inside and there.first >= self._target.start and there.next <= self.there.end
        if not is_inside or not equal_contents(here, there):
            return False
        times = here.header.base_timestamp, here.header.max_timestamp
        if self.windows is not None and not self.windows.is_one(*times):
            return False
        if account is not None and not account.is_copy(here.first, here.next, there.first, there.next):
            return False
        self.here.pop()
        self.there.pop()
        matcher.match_batch(here.next - 1, there.next - 1, here.header.record_count, times[0])
        if self.windows is not None:
            self.windows.count("stored_bytes", times[0], here.payload_bytes(here.header.record_count))
        self.equal_batches += 1
        return True

    async def _extend_source(self) -> bool:
        """Read the source up to its current end. Return whether there are more source records.

        Records after the end were written after the end was read.
        """
        if self._look is None or self._is_source_newer:
            return False
        self.here.extend(await self._look(self._source))
        self._is_source_newer = True
        return await self._has_source()

    async def _extend_target(self) -> bool:
        """Wait for more destination records while the log grows. Return whether more records have arrived."""
        assert self._look is not None, "only growing logs are extended"
        loop = self._target.cluster.loop
        until = loop.now() + _PATIENCE_SECONDS
        while not await self._has_target():
            end = await self._look(self._target)
            if end > self.there.end:
                self.there.extend(end)
                self._is_source_newer = False
                until = loop.now() + _PATIENCE_SECONDS
            elif loop.now() > until:
                return False
            else:
                await loop.sleep(_LOOK_SECONDS)
        return True
