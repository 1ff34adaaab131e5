"""Repeated errors: one report when a series of errors starts and one when it ends, regardless of their
number.

Pure state: callers record errors and their times, and log the returned reports in their own words.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_MOST_REASONS: Final = 3
"""Maximum number of reasons reported per episode, since reasons that contain an offset, a port or a duration
are never the same."""


@dataclass(frozen=True, slots=True)
class EpisodeEnd:
    """A finished episode: its first error, the number of errors, and the seconds from the first error to the
    success, or to the last error if the end is only visible as silence."""

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
    """Episodes of errors by key, one key for each operation that is retried.

    Times are monotonic seconds. Not thread-safe. Memory grows with the number of failing keys.
    """

    def __init__(self) -> None:
        self._episodes: dict[Key, _Episode] = {}

    def __len__(self) -> int:
        return len(self._episodes)

    def failed(self, key: Key, reason: str, now: float) -> bool:
        """Record an error; return whether to report it: the first of an episode, and new reasons in it, at
        most three in total."""
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
        """Record a success. Return the episode that it ended, to be reported, or None if there was none."""
        episode = self._episodes.pop(key, None)
        return None if episode is None else EpisodeEnd(episode.reason, episode.count, now - episode.began)

    def silent(self, before: float) -> Iterator[tuple[Key, EpisodeEnd]]:
        """End and yield the episodes without an error since `before`, for sources that report no
        successes."""
        for key in [key for key, episode in self._episodes.items() if episode.latest < before]:
            episode = self._episodes.pop(key)
            yield key, EpisodeEnd(episode.reason, episode.count, episode.latest - episode.began)
