"""Which datastream group makes its worker process die: found by copying the suspects apart. Pure: the
moment is passed in.

A death counts where it follows soon on the start of lanes: a process that dies of what a lane does dies
again when the lane begins again from its checkpoint. After the second such death in a row the groups of
that process are suspects, and are copied in processes of their own, the cells, half of them in each.
A cell that lives is cleared; one that dies is split, and the part that finds no free cell waits. A group
that is alone when its cell dies again and again is set aside, and tried again much later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Final

from mirror.model.identifiers import GroupName
from mirror.wording import counted

CELLS: Final = 2
"""Worker processes for suspects; they run only while there are some."""

QUICK_SECONDS: Final = 60.0
"""A death within this time after lanes were started counts; what lives longer is cleared."""

SUSPECT_DEATHS: Final = 2
PROVEN_DEATHS: Final = 3
_AGAIN_SECONDS: Final = 600.0
"""Silence of a worker counts as a death when its groups had a silent worker within this time before."""
_ASIDE_SECONDS: Final = 300.0
_EMPTY_SECONDS: Final = 90.0
"""How long a cell is kept for suspects that do not come: their lanes run elsewhere, or nowhere any more."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where lanes of a group may be copied: in the cell of this number, in any worker (None), or nowhere,
    for a reason."""

    cell: int | None = None
    held: str = ""


_ANYWHERE: Final = Place()


@dataclass
class _Trial:
    """Suspects that share a cell. `since`: when their lanes were started there; `until`: how long the cell
    waits for them."""

    groups: frozenset[GroupName]
    deaths: int = 0
    since: float | None = None
    until: float = 0.0


class Quarantine:
    """Used by one thread."""

    def __init__(self) -> None:
        self._deaths: dict[GroupName, int] = {}
        self._silences: dict[GroupName, float] = {}
        self._cells: list[_Trial | None] = [None] * CELLS
        self._waiting: list[_Trial] = []
        self._aside: dict[GroupName, tuple[str, float]] = {}

    def place(self, group: GroupName) -> Place:
        """Where a group may be copied now."""
        if group in self._aside:
            return Place(held=self._aside[group][0])
        for number, trial in enumerate(self._cells):
            if trial is not None and group in trial.groups:
                return Place(cell=number)
        if any(group in trial.groups for trial in self._waiting):
            return Place(held="waits: its worker process died, and other suspects are tried first")
        return _ANYWHERE

    @property
    def ailing(self) -> Mapping[GroupName, str]:
        """Groups that are suspected or set aside, and what is known."""
        trials = [one for one in (*self._cells, *self._waiting) if one is not None]
        suspected = {group: _suspicion(trial) for trial in trials for group in trial.groups}
        return suspected | {group: reason for group, (reason, _) in self._aside.items()}

    def is_used(self, cell: int) -> bool:
        """Whether a cell has suspects."""
        return self._cells[cell] is not None

    def started(self, cell: int, now: float) -> None:
        """Lanes were started in a cell."""
        trial = self._cells[cell]
        if trial is not None and trial.since is None:
            trial.since = now

    def died(self, groups: Iterable[GroupName], seconds: float, now: float) -> None:
        """A worker that is no cell died, `seconds` after lanes of these groups were started in it last."""
        suspects = []
        for group in groups:
            self._deaths[group] = self._deaths.get(group, 0) + 1 if seconds < QUICK_SECONDS else 0
            if self._deaths[group] >= SUSPECT_DEATHS and self.place(group) == _ANYWHERE:
                suspects.append(group)
        self._waiting += _halves(suspects)
        self._fill(now)

    def fell_silent(self, groups: Iterable[GroupName], seconds: float, now: float) -> None:
        """A worker that is no cell was killed because it did not answer, as one is that somebody has frozen:
        that counts as a death only when it repeats. `seconds` as for `died`."""
        recent = {group: at for group, at in self._silences.items() if now - at < _AGAIN_SECONDS}
        groups = frozenset(groups)
        self._silences = recent | dict.fromkeys(groups, now)
        self.died(groups & recent.keys(), seconds, now)

    def cell_died(self, cell: int, now: float, how: str) -> None:
        """The worker of a cell died, `how` in words."""
        trial = self._cells[cell]
        if trial is None:
            return
        trial.deaths += 1
        trial.since = None
        trial.until = now + _EMPTY_SECONDS
        if len(trial.groups) > 1:
            self._cells[cell] = None
            self._waiting[:0] = _halves(trial.groups)
        elif trial.deaths >= PROVEN_DEATHS:
            self._cells[cell] = None
            (group,) = trial.groups
            died = trial.deaths + self._deaths.get(group, 0)
            self._aside[group] = (f"its worker process died {died} times ({how})", now + _ASIDE_SECONDS)
        self._fill(now)

    def forget_all_but(self, groups: Set[GroupName]) -> None:
        """Groups that are not there any more are no suspects; one that bears such a name later is none."""
        for known in (self._deaths, self._silences, self._aside):
            for group in known.keys() - groups:
                del known[group]
        trials = [_without(trial, groups) for trial in self._waiting]
        self._waiting = [trial for trial in trials if trial is not None]
        self._cells = [_without(trial, groups) for trial in self._cells]

    def look(self, now: float) -> None:
        """Clear the cells that have lived, and try again what was set aside long ago."""
        for number, trial in enumerate(self._cells):
            if trial is None:
                continue
            has_lived = trial.since is not None and now - trial.since >= QUICK_SECONDS
            if has_lived or (trial.since is None and now >= trial.until):
                for group in trial.groups:
                    self._deaths.pop(group, None)
                self._cells[number] = None
        for group, (_, until) in tuple(self._aside.items()):
            if now >= until:
                del self._aside[group]
                self._waiting.append(_Trial(frozenset({group}), deaths=PROVEN_DEATHS - 1))
        self._fill(now)

    def _fill(self, now: float) -> None:
        for number, trial in enumerate(self._cells):
            if trial is None and self._waiting:
                self._cells[number] = self._waiting.pop(0)
                self._cells[number].until = now + _EMPTY_SECONDS  # type: ignore[union-attr]


def _halves(groups: Iterable[GroupName]) -> list[_Trial]:
    in_order = sorted(groups)
    middle = (len(in_order) + 1) // 2
    return [_Trial(frozenset(half)) for half in (in_order[:middle], in_order[middle:]) if half]


def _without(trial: _Trial | None, groups: Set[GroupName]) -> _Trial | None:
    """The trial with those of its suspects that are among the groups; None when there is none."""
    if trial is None or not trial.groups & groups:
        return None
    return trial if trial.groups <= groups else replace(trial, groups=trial.groups & groups)


def _suspicion(trial: _Trial) -> str:
    if len(trial.groups) == 1:
        return f"copied apart: its worker process keeps dying, {trial.deaths} times while it was alone"
    return f"copied apart: one of {counted(len(trial.groups), 'datastream')} makes its worker process die"
