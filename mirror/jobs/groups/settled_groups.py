"""Groups that a pass skips because their positions have not changed (settled groups)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple

from mirror.jobs.groups.decision import FollowReason
from mirror.jobs.groups.record import FollowedGroup
from mirror.jobs.groups.source import GroupSnapshot

_SETTLED_SECONDS: Final = 60.0
"""Seconds after which the destination position of a skipped (settled) group is read again."""


class SettledGroup(NamedTuple):
    """A group that every pass skips until its mark changes, or until `until` (monotonic seconds).

    `hindrances`: reasons why positions of the group are not synchronised.
    """

    mark: Hashable
    until: float
    has_positions: bool
    hindrances: tuple[FollowReason, ...]


class SettledGroups:
    """Groups that every pass skips because their positions have not changed (settled groups).

    `hindered_seconds`: time for which a group is skipped if only a change at the destination could make it
    follow; 0 to read such a group in each pass.
    """

    def __init__(self, hindered_seconds: float) -> None:
        self._hindered_seconds = hindered_seconds
        self._groups: dict[str, SettledGroup] = {}

    def keep(self, names: Iterable[str]) -> None:
        """Drop all groups except those named."""
        self._groups = {name: self._groups[name] for name in names if name in self._groups}

    def of(self, snapshot: GroupSnapshot, now: float) -> SettledGroup | None:
        """Return the entry of a group that a pass may skip because its positions are unchanged, or None."""
        known = self._groups.get(snapshot.name)
        return known if known is not None and known.mark == snapshot.mark and now < known.until else None

    def note(self, snapshot: GroupSnapshot, found: FollowedGroup, now: float) -> None:
        """Mark a group to be skipped if all its positions were committed exactly, or if it has none. A group
        is skipped only briefly if the next checkpoint would change nothing."""
        self._groups.pop(snapshot.name, None)
        positions, hindrances = found.positions.values(), tuple(found.hindrances)
        seconds = self._hindered_seconds if hindrances else _SETTLED_SECONDS
        is_final = all(
            position.is_exact or not (position.follows or position.reason is FollowReason.WOULD_MOVE_BACK)
            for position in positions
        )
        if is_final and seconds and FollowReason.FAILED not in hindrances:
            has_positions = bool(positions) or found.reason is not None
            self._groups[snapshot.name] = SettledGroup(
                snapshot.mark, now + seconds, has_positions, hindrances
            )
