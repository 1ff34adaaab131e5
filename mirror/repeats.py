"""Logs a repeated error once when it begins and once when it ends.

No I/O and no clock: callers record errors with their times, and log the returned reports.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_NUMBERS: Final = re.compile(r"\d+")
_MOST_REASONS: Final = 3
"""Maximum number of reasons that are reported per episode.

Reasons that contain an offset, a port or a duration are never the same.
"""


@dataclass(frozen=True, slots=True)
class EpisodeEnd:
    """A finished episode: repeated errors of one operation, from the first error to the next success.

    Contains its first error, the number of errors, and the seconds from the first error to the success, or to
    the last error if sources report no success.
    """

    reason: str
    count: int
    seconds: float


@dataclass(slots=True)
class _Episode:
    reason: str
    began: float
    latest: float
    count: int = 0
    reported: set[str] = field(default_factory=set)


class RepeatedErrors(Generic[Key]):
    """Groups repeated errors of an operation into episodes. The key identifies the operation.

    Times are monotonic seconds. Not thread-safe. Memory grows with the number of failing keys.
    """

    def __init__(self) -> None:
        self._episodes: dict[Key, _Episode] = {}

    def __len__(self) -> int:
        return len(self._episodes)

    def failed(self, key: Key, reason: str, now: float) -> bool:
        """Handle an error of an operation. Return whether to report it.

        At most three errors of an episode are reported: the first, and errors with new reasons.
        """
        episode = self._episodes.get(key)
        if episode is None:
            episode = self._episodes[key] = _Episode(reason, now, now)
        episode.count += 1
        episode.latest = now
        if reason in episode.reported or len(episode.reported) >= _MOST_REASONS:
            return False
        episode.reported.add(reason)
        return True

    def succeeded(self, key: Key, now: float) -> EpisodeEnd | None:
        """Handle a success of an operation. Return the episode of errors that it ends, or None."""
        episode = self._episodes.pop(key, None)
        return None if episode is None else EpisodeEnd(episode.reason, episode.count, now - episode.began)

    def silent(self, before: float) -> Iterator[tuple[Key, EpisodeEnd]]:
        """End the episodes whose latest error was before `before`, and yield them.

        For sources that report no successes.
        """
        for key in [key for key, episode in self._episodes.items() if episode.latest < before]:
            episode = self._episodes.pop(key)
            yield key, EpisodeEnd(episode.reason, episode.count, episode.latest - episode.began)


@dataclass(frozen=True, slots=True)
class CauseReport:
    """Report of a cause that affects many subjects: their number, and the reason seen for the first one.

    `is_over`: the cause has ended, after `seconds`. `count` is then the largest number of subjects that it
    affected at once.
    """

    reason: str
    count: int
    is_over: bool = False
    seconds: float = 0.0


@dataclass(slots=True)
class _Cause(Generic[Key]):
    reason: str
    began: float
    due: float
    affected: set[Key] = field(default_factory=set)
    most: int = 0
    reported: int = 0


class CauseReports(Generic[Key]):
    """Combines the errors of many subjects with the same cause, such as lanes, into few reports.

    A cause is reported shortly after its start, whenever the number of subjects has doubled, and at its end.

    The key of a cause is a text that is the same for all affected subjects; see `common_text`. Times are
    monotonic seconds. Not thread-safe. Memory grows with the number of subjects.
    """

    def __init__(self, gather_seconds: float = 1.0) -> None:
        self._gather_seconds = gather_seconds
        self._causes: dict[str, _Cause[Key]] = {}
        self._of: dict[Key, str] = {}

    def affected(self, subject: Key, cause: str, reason: str, now: float) -> None:
        """Note that a cause affects a subject. An earlier cause no longer affects the subject."""
        if self._of.get(subject) == cause:
            return
        self.freed(subject, now)
        known = self._causes.get(cause)
        if known is None:
            known = self._causes[cause] = _Cause(reason, now, now + self._gather_seconds)
        known.affected.add(subject)
        known.most = max(known.most, len(known.affected))
        self._of[subject] = cause

    def freed(self, subject: Key, now: float) -> None:
        """Note that no cause affects the subject any longer."""
        cause = self._of.pop(subject, None)
        if cause is None:
            return
        known = self._causes[cause]
        known.affected.discard(subject)
        if not known.affected and known.reported:
            known.due = min(known.due, now + self._gather_seconds)

    def due(self, now: float) -> list[CauseReport]:
        """Return the reports that are due now."""
        found: list[CauseReport] = []
        for cause, known in list(self._causes.items()):
            if known.most >= max(2 * known.reported, 1) and now >= known.due:
                found.append(CauseReport(known.reason, known.most))
                known.reported, known.due = known.most, now + self._gather_seconds
            elif not known.affected and now >= known.due:
                found.append(CauseReport(known.reason, known.most, True, now - known.began))
                del self._causes[cause]
        return found


def common_text(reason: str, *own: str) -> str:
    """Return a reason without the parts that differ between subjects.

    The name of the subject, and numbers such as offsets and times, are removed.
    """
    for name in sorted(filter(None, own), key=len, reverse=True):
        reason = reason.replace(name, "*")
    return _NUMBERS.sub("#", reason)
