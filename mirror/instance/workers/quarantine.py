"""Finds out which datastream group crashes its worker process, by running suspects in isolation. Pure.

A crash counts only soon after a start of lanes, because a lane that crashes its process does so again after
the restart from its checkpoint. After two such crashes in a row, the groups of the process are suspects, and
are divided between two separate isolation workers (cells). If an isolation worker survives, its groups are
cleared. If it crashes, its groups are divided again, and wait if no isolation worker is free. A group that
repeatedly crashes its isolation worker alone is suspended, and retried much later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Final

from mirror.model.identifiers import GroupName
from mirror.wording import counted

CELLS: Final = 2
"""Number of isolation workers (cells): processes that run only suspected groups."""

QUICK_SECONDS: Final = 60.0
"""Maximum seconds between a start of lanes and a crash that counts. A process that survives is cleared."""

SUSPECT_DEATHS: Final = 2
PROVEN_DEATHS: Final = 3
_AGAIN_SECONDS: Final = 600.0
"""Seconds within which a second hang of a worker with the same groups counts as a crash."""
_ASIDE_SECONDS: Final = 300.0
_EMPTY_SECONDS: Final = 90.0
"""Seconds for which an isolation worker waits for lanes that do not start, such as stopped lanes."""


@dataclass(frozen=True, slots=True)
class CellPlacement:
    """Where the lanes of a group may run. `cell`: number of an isolation worker; None for any worker. `held`:
    why the lanes must not run at all; empty if they may run."""

    cell: int | None = None
    held: str = ""


_ANYWHERE: Final = CellPlacement()


@dataclass
class _Trial:
    """Test of suspected groups in one isolation worker (cell). `since`: start of their lanes in the cell.
    `until`: time until which the cell waits for them."""

    groups: frozenset[GroupName]
    deaths: int = 0
    since: float | None = None
    until: float = 0.0


class Quarantine:
    """Decides which groups run in normal workers, run in isolation workers, or wait. Used by one thread."""

    def __init__(self) -> None:
        self._deaths: dict[GroupName, int] = {}
        self._silences: dict[GroupName, float] = {}
        self._cells: list[_Trial | None] = [None] * CELLS
        self._waiting: list[_Trial] = []
        self._aside: dict[GroupName, tuple[str, float]] = {}

    def place(self, group: GroupName) -> CellPlacement:
        """Return where a group may run now."""
        if group in self._aside:
            return CellPlacement(held=self._aside[group][0])
        for number, trial in enumerate(self._cells):
            if trial is not None and group in trial.groups:
                return CellPlacement(cell=number)
        if any(group in trial.groups for trial in self._waiting):
            return CellPlacement(held="waiting: its worker process died, and other suspects are tested first")
        return _ANYWHERE

    @property
    def ailing(self) -> Mapping[GroupName, str]:
        """Map suspected and suspended groups to the reason."""
        trials = [cell for cell in (*self._cells, *self._waiting) if cell is not None]
        suspected = {group: _suspicion(trial) for trial in trials for group in trial.groups}
        return suspected | {group: reason for group, (reason, _) in self._aside.items()}

    def is_used(self, cell: int) -> bool:
        """Return whether an isolation worker has suspected groups."""
        return self._cells[cell] is not None

    def started(self, cell: int, now: float) -> None:
        """Set the time at which lanes were started in an isolation worker."""
        trial = self._cells[cell]
        if trial is not None and trial.since is None:
            trial.since = now

    def died(self, groups: Iterable[GroupName], seconds: float, now: float) -> None:
        """Handle the crash of a normal worker. `groups`: groups with lanes in the worker. `seconds`: time
        since lanes were last started in the worker."""
        suspects = []
        for group in groups:
            self._deaths[group] = self._deaths.get(group, 0) + 1 if seconds < QUICK_SECONDS else 0
            if self._deaths[group] >= SUSPECT_DEATHS and self.place(group) == _ANYWHERE:
                suspects.append(group)
        self._waiting += _halves(suspects)
        self._fill(now)

    def fell_silent(self, groups: Iterable[GroupName], seconds: float, now: float) -> None:
        """Handle the kill of an unresponsive normal worker. The first kill does not count as a crash, because
        something else may have frozen the process. `seconds`: see `died`."""
        recent = {group: at for group, at in self._silences.items() if now - at < _AGAIN_SECONDS}
        groups = frozenset(groups)
        self._silences = recent | dict.fromkeys(groups, now)
        self.died(groups & recent.keys(), seconds, now)

    def cell_died(self, cell: int, now: float, how: str) -> None:
        """Handle the crash of an isolation worker. `how`: description of the crash."""
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

    def forget(self, groups: Set[GroupName]) -> None:
        """Drop groups that no longer exist, so that a new group with the same name is not suspected."""
        for known in (self._deaths, self._silences, self._aside):
            for group in known.keys() & groups:
                del known[group]
        trials = [_without(trial, groups) for trial in self._waiting]
        self._waiting = [trial for trial in trials if trial is not None]
        self._cells = [_without(trial, groups) for trial in self._cells]

    def update(self, now: float) -> None:
        """Clear groups whose isolation worker has run long enough. Retry groups suspended long ago."""
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
    """Return the trial without some groups, or None if no suspects remain."""
    if trial is None or trial.groups <= groups:
        return None
    return replace(trial, groups=trial.groups - groups) if trial.groups & groups else trial


def _suspicion(trial: _Trial) -> str:
    if len(trial.groups) == 1:
        return f"copied in isolation: its worker process crashed {trial.deaths} times while it was alone"
    return f"copied in isolation: one of {counted(len(trial.groups), 'datastream')} crashes its worker"
