"""Expected contents of the destination at the end of a run, whatever happened to either side."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.audit.record_tally import LeftOut
from mirror.jobs.partition_verdict import PartitionVerdict
from mirror.model.datastreams.policy import Guarantee, OnRejection
from tests.fakes.broker import batches
from tests.fakes.broker.accounts import check_accounts
from tests.fakes.broker.contents import Seen, committed
from tests.fakes.broker.log import PartitionLog
from tests.fakes.broker.mirrored import MirroredFakes

Content = tuple[object, ...]


class Judge:
    """Checks of one partition: every source record exists once, in order, and no other record does.

    Exceptions:

    - records that the source lost may exist at the destination;
    - records that the destination lost after storing them may be missing, if the lane reports a gap;
    - undecodable records may be missing, if the policy skips them;
    - `AT_LEAST_ONCE` allows duplicates, so records lost by the destination may reappear after later ones.
    """

    def __init__(self, fakes: MirroredFakes, topic: str, number: int, guarantee: Guarantee) -> None:
        self._fakes = fakes
        self._topic = topic
        self._number = number
        self._name = f"{topic}-{number}"
        self._repeats = guarantee is Guarantee.AT_LEAST_ONCE
        self._gone: set[Content] = set()
        """Records at the source when it lost data, which may have been copied before."""
        self._destroyed: set[Content] = set()
        """Records lost at the destination."""
        self._leavable: set[Content] = set()
        """Records in batches that the mirror may have to decode and cannot."""
        self._is_whole = True
        """Whether neither side has lost data, so that the map contains every record."""

    def source_loses(self) -> None:
        """Note that the source is about to lose data. A record is lost with the marker that committed it."""
        log = self._fakes.source.log(self._topic, self._number)
        self._is_whole = False
        self._gone.update(one.content for one in committed(log))

    def destination_loses(self, first: int) -> None:
        """Note that the destination is about to lose everything from this offset."""
        log = self._fakes.target.log(self._topic, self._number)
        self._is_whole = False
        self._destroyed.update(one.content for one in _stored(log) if one.offset >= first)

    def may_leave_out(self, records: Sequence[batches.Content]) -> None:
        """Note records of a batch that cannot be decoded."""
        self._leavable.update(
            (at, key, value, tuple((name, text) for name, text in headers))
            for at, key, value, headers in records
        )

    def check(self) -> int:
        """Compare every record, and the ledger with the source log; return the number of missing records.
        Raises AssertionError."""
        source = self._fakes.source.log(self._topic, self._number)
        left_out = self._left_out(source)
        here = [one for one in committed(source) if one.content not in left_out]
        there = [one for one in self._fakes.copied(self._topic, self._number) if one.content not in left_out]
        expected, found = [one.content for one in here], [one.content for one in there]
        if self._repeats:
            found = list(dict.fromkeys(found))
        assert len(set(found)) == len(found), f"{self._name} has duplicate records"
        lane = self._fakes.lane(self._topic, self._number)
        assert lane.progress.ledger.is_balanced, f"the ledger of {self._name} is not balanced"
        if self._is_whole:
            assert found == expected, f"{self._name} differs"
            if not self._repeats:
                for one, two in zip(here, there, strict=True):
                    where = lane.progress.offset_map.forward(one.offset)
                    assert where == (two.offset, "exact"), f"{self._name}: {one.offset} is mapped to {where}"
            return 0
        wanted = set(expected)
        kept = [one for one in found if one in wanted]
        missing = [one for one in expected if one not in set(kept)]
        unknown = [one for one in found if one not in wanted and one not in self._gone]
        assert set(missing) <= self._destroyed, f"{self._name} lacks {_shown(missing, self._destroyed)}"
        left_out = self._destroyed if self._repeats else set()
        ordered = [one for one in kept if one not in left_out]
        assert ordered == [one for one in expected if one in set(ordered)], f"{self._name} is out of order"
        assert not unknown, f"{self._name} has {_shown(unknown, self._gone)}"
        if missing:
            assert lane.progress.gaps, f"{self._name} lacks {_shown(missing, set())} and reports no gap"
        return len(missing)

    def check_audit(self, verdict: PartitionVerdict, missing: int) -> None:
        """Check that an audit reports no difference that is not there. `missing`: number of missing records.
        Raises AssertionError.

        After a loss, the ledger may state a larger gap than there is, whose records count as missing unless
        they are in the compared range.
        """
        counts, shown = verdict.comparison.found.counts, f"audit of {self._name}: {verdict}"
        has_gap = bool(self._fakes.lane(self._topic, self._number).progress.gaps)
        assert verdict.missing <= missing or has_gap, shown
        if self._is_whole:
            assert (counts.altered, counts.reordered, counts.foreign, counts.misplaced) == (0, 0, 0, 0), shown
            assert self._repeats or not counts.duplicated, shown

    def _left_out(self, source: PartitionLog) -> set[Content]:
        """Return the records skipped by policy."""
        check_accounts(
            self._fakes, self._topic, self._number, is_lost=lambda one: one.content in self._destroyed
        )
        lane = self._fakes.lane(self._topic, self._number)
        known = LeftOut(lane.progress.ledger, lane.progress.offset_map)
        here = committed(source)
        found = {one.content for one in here if known.are_left_out(one.offset, one.offset + 1)}
        if lane.spec.policy.on_rejection is OnRejection.PAUSE:
            assert not found, (
                f"{self._name} has skipped {_shown(list(found), set())} but its policy is to pause"
            )
            return found
        # the ledger no longer covers offsets before the start of a new history
        found |= {one.content for one in here if one.offset < lane.progress.ledger.start} & self._leavable
        assert found <= self._leavable, f"{self._name} has skipped {_shown(list(found), self._leavable)}"
        return found


def _stored(log: PartitionLog) -> list[Seen]:
    """Return every record of a log, regardless of the state of its transaction."""
    return [
        Seen(
            one.offset, one.timestamp, one.key, one.value, tuple((name, value) for name, value in one.headers)
        )
        for batch in log.batches
        if not batch.is_control
        for one in batches.records_of(batch.data) or []
    ]


def _shown(contents: list[Content], left_out: set[Content]) -> str:
    return ", ".join(str(one[2]) for one in contents if one not in left_out)
