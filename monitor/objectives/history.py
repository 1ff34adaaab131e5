"""What was measured of every objective, by pieces of the past, of which only those are asked for that are not
known yet."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from mirror.errors import HeadraceError
from mirror.model.datastreams.objectives.objective import Objective
from monitor.burn.pieces import Piece, pieces_of, reaches_of
from monitor.burn.tally import Tally
from monitor.latency import Subject
from monitor.objectives.alone import SourcesAlone
from monitor.objectives.past import Counting, Past, TallyColumns, Wanted, added

_SETTLED_MS: Final = 30_000
"""After that, what was measured of a piece is in Pinot."""
_NOBODY: Final[frozenset[int]] = frozenset()


class _Known(NamedTuple):
    """Of a piece. `unknown`: numbers of what was not counted yet when it was asked for. `is_final`: it was
    asked for when all of it was in Pinot."""

    counting: Counting
    sums: TallyColumns
    unknown: frozenset[int]
    is_final: bool

    def counted_by(self, counting: Counting) -> _Known:
        """As far as it was counted before."""
        if self.counting is counting:
            return self
        before = [self.counting.numbers.get(one) for one in counting.numbers]
        was_known = [at is not None and at not in self.unknown for at in before]
        records, late, stale = (
            [one[at or 0] if known else 0 for at, known in zip(before, was_known, strict=True)]
            for one in self.sums
        )
        sums = TallyColumns(array("q", map(int, records)), array("d", late), array("d", stale))
        unknown = frozenset(number for number, known in enumerate(was_known) if not known)
        return _Known(counting, sums, unknown, self.is_final)


class _Sum(NamedTuple):
    """Of the pieces of a window that stay as they are."""

    pieces: tuple[Piece, ...]
    counting: Counting
    sums: TallyColumns


class _Window(NamedTuple):
    """A window as of the last refresh. `sums` None: a piece of it is not known at all. `unknown`: numbers of
    what is not known of all of it."""

    sums: TallyColumns | None
    unknown: frozenset[int] = _NOBODY


class History:
    """Not for several threads. It costs little where only the last minutes are new: sums over the others are
    kept, and so are minutes that a longer window has to be begun with later."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._known: dict[Piece, _Known] = {}
        self._sums: dict[int, _Sum] = {}
        self._windows: dict[int, _Window] = {}
        self._counting = Counting(frozenset())
        self.problem = ""
        """Why something could not be read at the last refresh."""
        self.is_away = False
        """Whether that was all that was asked for."""
        self._answers = 0

    def refresh(
        self,
        now_ms: int,
        wanted: frozenset[Wanted],
        windows: Collection[int],
        most_questions: int,
        alone: SourcesAlone | None = None,
    ) -> None:
        """Ask for the newest pieces of the shortest windows first. `windows`: in seconds. `most_questions`:
        about pieces that stay as they are; those that end now are asked for again each time, and once when
        they have ended for long enough. `alone`: of which sources topics need not be told apart."""
        if wanted != self._counting.wanted:
            self._counting = Counting(wanted)
        whole = {seconds: pieces_of(now_ms, seconds) for seconds in sorted(windows)}
        needed = dict.fromkeys(piece for pieces in whole.values() for piece in reversed(pieces))
        since = {length_ms: now_ms - reach for length_ms, reach in reaches_of(windows).items()}
        self._known = {
            piece: one.counted_by(self._counting)
            for piece, one in self._known.items()
            if one.is_final and (piece in needed or piece.since_ms >= since.get(piece.length_ms, now_ms))
        }
        self.problem, self._answers = "", 0
        try:
            self._ask_for(needed, now_ms, most_questions, alone or SourcesAlone())
        except HeadraceError as error:
            self.problem = str(error)
        self.is_away = bool(self.problem) and not self._answers
        self._sums = {seconds: one for seconds, one in self._sums.items() if seconds in whole}
        self._windows = {seconds: self._window(seconds, pieces) for seconds, pieces in whole.items()}

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to ask about."""
        return not self.problem and all(
            one.sums is not None and not one.unknown for one in self._windows.values()
        )

    def totals(self, wanted: Wanted) -> Mapping[int, Tally | None]:
        """What was measured in each window, by its seconds; None while a piece of it is not known."""
        number = self._counting.numbers.get(wanted)
        return {seconds: _tally(one, number) for seconds, one in self._windows.items()}

    def _ask_for(
        self, needed: Iterable[Piece], now_ms: int, most_questions: int, alone: SourcesAlone
    ) -> None:
        questions = 0
        for piece in needed:
            known = self._known.get(piece)
            if known is not None and not known.unknown:
                continue
            is_final = piece.until_ms + _SETTLED_MS <= now_ms
            questions += is_final
            if not is_final or questions <= most_questions:
                found = self._past.past(piece, self._counting.ages, alone.since(piece.since_ms))
                sums = self._counting.sums(found, piece)
                self._known[piece] = _Known(self._counting, sums, _NOBODY, is_final)
                self._answers += 1

    def _window(self, seconds: int, pieces: Sequence[Piece]) -> _Window:
        known = [self._known[piece] for piece in pieces if piece in self._known]
        if len(known) < len(pieces):
            return _Window(None)
        unknown = _NOBODY.union(*(one.unknown for one in known))
        final = tuple(piece for piece, one in zip(pieces, known, strict=True) if one.is_final)
        kept = self._sums.get(seconds)
        if kept is None or kept.pieces != final or kept.counting is not self._counting:
            sums = added((one.sums for one in known if one.is_final), self._counting.nothing)
            kept = self._sums[seconds] = _Sum(final, self._counting, sums)
        if unknown:
            del self._sums[seconds]
        return _Window(added((one.sums for one in known if not one.is_final), kept.sums), unknown)


def _tally(window: _Window, number: int | None) -> Tally | None:
    if window.sums is None or number is None or number in window.unknown:
        return None
    records, late, stale = window.sums
    return Tally(records[number], late[number], stale[number])


def wanted_of(subjects: Iterable[Subject]) -> frozenset[Wanted]:
    """What is to be counted for all objectives of these datastreams."""
    return frozenset(key_of(subject, one) for subject in subjects for one in subject.objectives)


def key_of(subject: Subject, objective: Objective) -> Wanted:
    """What is counted for one objective."""
    return Wanted(subject.source, subject.selection, objective.milliseconds)
