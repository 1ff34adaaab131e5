"""What was measured of every objective, by pieces of the past, of which only those are asked for that are not
known yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from mirror.errors import HeadraceError
from mirror.model.datastreams.objectives.objective import Objective
from mirror.model.metrics import add_counts
from mirror.model.topics import TopicSelection
from monitor.burn.pieces import Piece, pieces_of
from monitor.burn.tally import NOTHING, Tally, late_records
from monitor.latency import Source, Subject, selects

_SETTLED_MS: Final = 30_000
"""After that, what was measured of a piece is in Pinot."""


class Wanted(NamedTuple):
    """What is counted: of which topics, and from when on a record is late."""

    source: Source
    selection: TopicSelection
    milliseconds: int


class TopicPast(NamedTuple):
    """What was measured of a topic in a piece: a histogram, and the seconds in which some record of it had
    waited longer than a number of milliseconds, by that number."""

    counts: Sequence[int]
    stale_seconds: Mapping[int, float]


class Past(Protocol):
    """What the mirror measured before, as it is stored."""

    def past(self, piece: Piece, milliseconds: Collection[int]) -> Mapping[Source, Mapping[str, TopicPast]]:
        """By source and topic. Raises Unreachable, AnalyticsError."""
        ...


class _Known(NamedTuple):
    """Of a piece: what was counted, and what came out other than nothing."""

    wanted: frozenset[Wanted]
    tallies: Mapping[Wanted, Tally]


class _Sum(NamedTuple):
    """Of the pieces of a window that stay as they are."""

    pieces: tuple[Piece, ...]
    wanted: frozenset[Wanted]
    tallies: Mapping[Wanted, Tally]


class _Window(NamedTuple):
    """A window as of the last refresh. `unknown`: what is not known of all of it."""

    unknown: frozenset[Wanted]
    tallies: Mapping[Wanted, Tally]


class History:
    """Not for several threads. It costs little where only the last minutes are new: sums over the others are
    kept."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._known: dict[Piece, _Known] = {}
        self._sums: dict[int, _Sum] = {}
        self._windows: dict[int, _Window] = {}
        self._wanted: frozenset[Wanted] = frozenset()
        self.problem = ""
        """Why something could not be read at the last refresh."""

    def refresh(
        self, now_ms: int, wanted: frozenset[Wanted], windows: Collection[int], most_questions: int
    ) -> None:
        """Ask for the newest pieces of the shortest windows first. `windows`: in seconds. `most_questions`:
        about pieces that stay as they are; those that end now are asked for again each time."""
        self._wanted = wanted = self._wanted if wanted == self._wanted else wanted
        whole = {seconds: pieces_of(now_ms, seconds) for seconds in sorted(windows)}
        needed = dict.fromkeys(piece for pieces in whole.values() for piece in reversed(pieces))
        self._known = {piece: one for piece, one in self._known.items() if piece in needed}
        self.problem = ""
        try:
            self._ask_for(needed, now_ms, most_questions)
        except HeadraceError as error:
            self.problem = str(error)
        self._sums = {seconds: one for seconds, one in self._sums.items() if seconds in whole}
        self._windows = {seconds: self._window(seconds, pieces, now_ms) for seconds, pieces in whole.items()}

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to ask about."""
        return not self.problem and not any(one.unknown for one in self._windows.values())

    def total(self, wanted: Wanted, seconds: int) -> Tally | None:
        """What was measured in a window; None while a piece of it is not known."""
        window = self._windows.get(seconds)
        if window is None or wanted not in self._wanted or wanted in window.unknown:
            return None
        return window.tallies.get(wanted, NOTHING)

    def _ask_for(self, needed: Iterable[Piece], now_ms: int, most_questions: int) -> None:
        questions = 0
        for piece in needed:
            is_new = not _is_settled(piece, now_ms)
            if not is_new and self._is_known(piece):
                continue
            questions += not is_new
            if is_new or questions <= most_questions:
                if is_new:
                    self._known.pop(piece, None)
                self._known[piece] = self._ask(piece)

    def _is_known(self, piece: Piece) -> bool:
        known = self._known.get(piece)
        if known is None or known.wanted is self._wanted:
            return known is not None
        if not self._wanted <= known.wanted:
            return False
        self._known[piece] = known._replace(wanted=self._wanted)
        return True

    def _ask(self, piece: Piece) -> _Known:
        answer = self._past.past(piece, {one.milliseconds for one in self._wanted})
        found = {one: _tally(one, answer.get(one.source, {}), piece) for one in self._wanted}
        return _Known(self._wanted, {one: tally for one, tally in found.items() if tally != NOTHING})

    def _window(self, seconds: int, pieces: tuple[Piece, ...], now_ms: int) -> _Window:
        unknown: frozenset[Wanted] = frozenset()
        for piece in pieces:
            known = self._known.get(piece)
            if known is None:
                return _Window(self._wanted, {})
            if known.wanted is not self._wanted:
                unknown |= self._wanted - known.wanted
        settled = tuple(piece for piece in pieces if _is_settled(piece, now_ms))
        kept = self._sums.get(seconds)
        if kept is None or kept.pieces != settled or kept.wanted is not self._wanted:
            kept = self._sums[seconds] = _Sum(settled, self._wanted, self._summed(settled, {}))
        fresh = self._summed(pieces[len(settled) :], kept.tallies)
        if unknown:
            del self._sums[seconds]
        return _Window(unknown, fresh)

    def _summed(self, pieces: Iterable[Piece], onto: Mapping[Wanted, Tally]) -> dict[Wanted, Tally]:
        sums = dict(onto)
        for piece in pieces:
            for wanted, tally in self._known[piece].tallies.items():
                sums[wanted] = sums[wanted] + tally if wanted in sums else tally
        return sums


def _is_settled(piece: Piece, now_ms: int) -> bool:
    return piece.until_ms + _SETTLED_MS <= now_ms


def _tally(wanted: Wanted, topics: Mapping[str, TopicPast], piece: Piece) -> Tally:
    """Of several topics, the one that waited longest says how long it was stale, at least."""
    own = [one for topic, one in topics.items() if selects(wanted.selection, topic)]
    if not own:
        return NOTHING
    counts = add_counts(one.counts for one in own)
    stale = max(one.stale_seconds.get(wanted.milliseconds, 0.0) for one in own)
    length = (piece.until_ms - piece.since_ms) / 1_000
    return Tally(sum(counts), late_records(counts, wanted.milliseconds), min(stale, length))


def wanted_of(subjects: Iterable[Subject]) -> frozenset[Wanted]:
    """What is to be counted for all objectives of these datastreams."""
    return frozenset(key_of(subject, one) for subject in subjects for one in subject.objectives)


def key_of(subject: Subject, objective: Objective) -> Wanted:
    """What is counted for one objective."""
    return Wanted(subject.source, subject.selection, objective.milliseconds)
