"""Errors that repeat: one report when they begin and one when they end, whatever number lies between.

Pure state: callers say what failed and when, and report what comes back in their own words.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_MOST_REASONS: Final = 3
"""Reported in one episode. Reasons that hold an offset, a port or a duration would have no end."""


@dataclass(frozen=True, slots=True)
class Ended:
    """An episode that is over: the error it began with, the number of its errors, and the seconds from the
    first to the success, or to the last error where only silence shows the end."""

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
    """Episodes of errors by key: one key for each thing that is tried again and again.

    Moments are monotonic seconds. Not thread-safe. Memory grows with the keys that fail at present.
    """

    def __init__(self) -> None:
        self._episodes: dict[Key, _Episode] = {}

    def __len__(self) -> int:
        return len(self._episodes)

    def failed(self, key: Key, reason: str, now: float) -> bool:
        """Note an error. True when it is to be reported: the first of an episode, and a reason that the
        episode has not had yet, of which at most three are reported."""
        episode = self._episodes.get(key)
        if episode is None:
            episode = self._episodes[key] = _Episode(reason, now, now)
        episode.count += 1
        episode.latest = now
        if reason in episode.reported or len(episode.reported) >= _MOST_REASONS:
            return False
        episode.reported.add(reason)
        return True

    def succeeded(self, key: Key, now: float) -> Ended | None:
        """Note a success. What it has ended and is to be reported; None when nothing had failed."""
        episode = self._episodes.pop(key, None)
        return None if episode is None else Ended(episode.reason, episode.count, now - episode.began)

    def silent(self, before: float) -> Iterator[tuple[Key, Ended]]:
        """End and return the episodes without an error since `before`: for sources that report errors and
        no successes."""
        for key in [key for key, episode in self._episodes.items() if episode.latest < before]:
            episode = self._episodes.pop(key)
            yield key, Ended(episode.reason, episode.count, episode.latest - episode.began)
