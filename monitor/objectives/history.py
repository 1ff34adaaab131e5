"""Cache of past measurements for all objectives, so that only missing time ranges are queried."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from mirror.errors import HeadraceError
from mirror.model.datastreams.objectives import Objective
from monitor.burn.pieces import TimeRangePiece, pieces_of, reaches_of
from monitor.burn.tally import LatencyTally
from monitor.latency import ObjectiveSubject
from monitor.objectives.alone import SourcesAlone
from monitor.objectives.past import CountPlan, PastMeasurements, RequiredCount, TallyColumns, added

_SETTLED_MS: Final = 30_000
"""Delay in ms after which all measurements of a time range are certainly in Pinot."""
_NOBODY: Final[frozenset[int]] = frozenset()


class _Known(NamedTuple):
    """Sums over one piece of a time window. `unknown`: numbers of the objectives that the query did not
    count. `is_final`: Pinot had all measurements of the piece."""

    counting: CountPlan
    sums: TallyColumns
    unknown: frozenset[int]
    is_final: bool

    def counted_by(self, counting: CountPlan) -> _Known:
        """Return the sums rearranged for another set of objectives. Objectives that were not counted before
        are unknown."""
        if self.counting is counting:
            return self
        before = [self.counting.numbers.get(number) for number in counting.numbers]
        was_known = [at is not None and at not in self.unknown for at in before]
        records, late, stale = (
            [sums[at or 0] if known else 0 for at, known in zip(before, was_known, strict=True)]
            for sums in self.sums
        )
        sums = TallyColumns(array("q", map(int, records)), array("d", late), array("d", stale))
        unknown = frozenset(number for number, known in enumerate(was_known) if not known)
        return _Known(counting, sums, unknown, self.is_final)


class _Sum(NamedTuple):
    """Sums over those pieces of a window whose measurements are complete."""

    pieces: tuple[TimeRangePiece, ...]
    counting: CountPlan
    sums: TallyColumns


class _Window(NamedTuple):
    """Sums over a window after the last refresh. `sums`: None if a piece is missing. `unknown`: numbers of
    the objectives that are unknown for some pieces."""

    sums: TallyColumns | None
    unknown: frozenset[int] = _NOBODY


class History:
    """Cache of past measurements for all objectives. Not thread-safe. A refresh is cheap, because sums of
    older pieces are kept, also those that a longer window will need."""

    def __init__(self, past: PastMeasurements) -> None:
        self._past = past
        self._known: dict[TimeRangePiece, _Known] = {}
        self._sums: dict[int, _Sum] = {}
        self._windows: dict[int, _Window] = {}
        self._counting = CountPlan(frozenset())
        self.problem = ""
        """Error message of the last refresh, or an empty string."""
        self.is_away = False
        """True if every query of the last refresh failed."""
        self._answers = 0

    def refresh(
        self,
        now_ms: int,
        wanted: frozenset[RequiredCount],
        windows: Collection[int],
        most_questions: int,
        alone: SourcesAlone | None = None,
    ) -> None:
        """Query the pieces that are missing: shortest windows first, and the latest pieces first in each
        window.

        `windows`: lengths of the windows in seconds. `most_questions`: maximum number of queries for final
        pieces. A piece that is not final yet is queried at each refresh, and once more when it is final.
        `alone`: sources whose topics need not be queried separately.
        """
        if wanted != self._counting.wanted:
            self._counting = CountPlan(wanted)
        whole = {seconds: pieces_of(now_ms, seconds) for seconds in sorted(windows)}
        needed = dict.fromkeys(period for pieces in whole.values() for period in reversed(pieces))
        since = {length_ms: now_ms - reach for length_ms, reach in reaches_of(windows).items()}
        self._known = {
            period: sums.counted_by(self._counting)
            for period, sums in self._known.items()
            if sums.is_final
            and _is_settled(period, now_ms)  # not read by a clock that was ahead
            and (period in needed or period.since_ms >= since.get(period.length_ms, now_ms))
        }
        self.problem, self._answers = "", 0
        try:
            self._ask_for(needed, now_ms, most_questions, alone or SourcesAlone())
        except HeadraceError as error:
            self.problem = str(error)
        self.is_away = bool(self.problem) and not self._answers
        self._sums = {seconds: sums for seconds, sums in self._sums.items() if seconds in whole}
        self._windows = {seconds: self._window(seconds, pieces) for seconds, pieces in whole.items()}

    @property
    def is_whole(self) -> bool:
        """True if no piece of any window is missing."""
        return not self.problem and all(
            window.sums is not None and not window.unknown for window in self._windows.values()
        )

    def totals(self, wanted: RequiredCount) -> Mapping[int, LatencyTally | None]:
        """Map the length of each window in seconds to its tally. A tally is None while a piece is unknown."""
        number = self._counting.numbers.get(wanted)
        return {seconds: _tally(window, number) for seconds, window in self._windows.items()}

    def _ask_for(
        self, needed: Iterable[TimeRangePiece], now_ms: int, most_questions: int, alone: SourcesAlone
    ) -> None:
        questions = 0
        for period in needed:
            known = self._known.get(period)
            if known is not None and not known.unknown:
                continue
            is_final = _is_settled(period, now_ms)
            questions += is_final
            if not is_final or questions <= most_questions:
                found = self._past.past(period, self._counting.ages, alone.since(period.since_ms))
                sums = self._counting.sums(found, period)
                self._known[period] = _Known(self._counting, sums, _NOBODY, is_final)
                self._answers += 1

    def _window(self, seconds: int, pieces: Sequence[TimeRangePiece]) -> _Window:
        known = [self._known[period] for period in pieces if period in self._known]
        if len(known) < len(pieces):
            return _Window(None)
        unknown = _NOBODY.union(*(part.unknown for part in known))
        final = tuple(period for period, part in zip(pieces, known, strict=True) if part.is_final)
        kept = self._sums.get(seconds)
        if kept is None or kept.pieces != final or kept.counting is not self._counting:
            sums = added((part.sums for part in known if part.is_final), self._counting.nothing)
            kept = self._sums[seconds] = _Sum(final, self._counting, sums)
        if unknown:
            del self._sums[seconds]
        return _Window(added((part.sums for part in known if not part.is_final), kept.sums), unknown)


def _is_settled(period: TimeRangePiece, now_ms: int) -> bool:
    return period.until_ms + _SETTLED_MS <= now_ms


def _tally(window: _Window, number: int | None) -> LatencyTally | None:
    if window.sums is None or number is None or number in window.unknown:
        return None
    records, late, stale = window.sums
    return LatencyTally(records[number], late[number], stale[number])


def wanted_of(subjects: Iterable[ObjectiveSubject]) -> frozenset[RequiredCount]:
    """Return the counts of late records that all objectives require."""
    return frozenset(key_of(subject, objective) for subject in subjects for objective in subject.objectives)


def key_of(subject: ObjectiveSubject, objective: Objective) -> RequiredCount:
    """Return which count of late records one objective requires."""
    return RequiredCount(subject.source, subject.selection, objective.milliseconds)
