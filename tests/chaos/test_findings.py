"""Test that the check after the kills detects every defect."""

from __future__ import annotations

from mirror.lane.ledger import Ledger, OffsetClass
from mirror.lane.offset_map import OffsetMap
from mirror.lane.progress import LaneProgress
from tests.chaos.killing import Findings
from tests.fakes.broker.contents import Seen


def _seen(*keys: str, first: int = 0) -> list[Seen]:
    return [Seen(first + n, 1, key.encode(), b"v", ()) for n, key in enumerate(keys)]


def _progress(count: int, target: int = 0) -> LaneProgress:
    ledger, offset_map = Ledger(0), OffsetMap()
    ledger.enter(OffsetClass.MIRRORED, count)
    offset_map.add(0, target, count)
    return LaneProgress(ledger, offset_map)


def _counts(found: Findings) -> tuple[int, ...]:
    return (found.lost, found.repeated, found.disorder, found.wrong_map_entries, found.unbalanced_ledgers)


def test_a_faithful_copy_has_no_findings() -> None:
    found = Findings(3, {})
    found.add(_seen("a", "b", "c"), _seen("a", "b", "c", first=10), _progress(3, target=10))
    assert _counts(found) == (0, 0, 0, 0, 0)


def test_a_lost_record_is_found_and_so_is_the_map_behind_it() -> None:
    found = Findings(3, {})
    found.add(_seen("a", "b", "c"), _seen("a", "c"), _progress(3))
    assert _counts(found) == (1, 0, 0, 2, 0)


def test_a_repeated_record_is_found() -> None:
    found = Findings(2, {})
    found.add(_seen("a", "b"), _seen("a", "b", "b"), _progress(2))
    assert _counts(found) == (0, 1, 0, 1, 0)


def test_of_two_owners_at_once_the_map_may_show_either_copy() -> None:
    found = Findings(2, {"frozen copy": 1})
    found.add(_seen("a", "b"), _seen("a", "b", "b"), _progress(2))
    assert _counts(found) == (0, 1, 0, 0, 0)


def test_changed_order_is_found() -> None:
    found = Findings(2, {})
    found.add(_seen("a", "b"), _seen("b", "a"), _progress(2))
    assert _counts(found) == (0, 0, 1, 2, 0)


def test_an_unbalanced_ledger_is_found() -> None:
    progress = _progress(1)
    progress.ledger.next += 1
    found = Findings(1, {})
    found.add(_seen("a"), _seen("a"), progress)
    assert _counts(found) == (0, 0, 0, 0, 1)
