"""When a record was written, found by asking for offsets by time: no record is read.

A broker says which is the first record that is not older than a moment. From that follows the newest time
stamp up to a position: as long as something up to there is not older than the moment, the search goes on with
a later one. That is what retention goes by, too: what lies in front of a record keeps it alive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Final

from mirror.client.cluster import Cluster
from mirror.model.topics import TopicPartition
from mirror.protocol.control.offsets import OffsetAnswer

_LEADER_SECONDS: Final = 2.0
_YOUNGEST_MS: Final = 1_000.0
_OLDEST_MS: Final = 1e12
"""More than thirty years: what seems to be older has no time stamp that says anything."""
MOST_QUESTIONS: Final = 12
"""Each takes the root of what two ages may differ by: then the age is known to 0.7 %."""


class TimeSearch:
    """Of one record, by its offset. Pure.

    `moment`: what to ask for next, in epoch ms. `found_ms`: the newest time stamp up to the record, as far as
    it is known; None before anything up to there is known to have one.
    """

    def __init__(self, offset: int, now_ms: int) -> None:
        self._offset = offset
        self._now_ms = now_ms
        self._young, self._old = _YOUNGEST_MS, _OLDEST_MS
        self.found_ms: int | None = None
        self.is_over = False

    @property
    def moment(self) -> int:
        """Ages are divided in the same ratio, not in the same time: of old records less matters."""
        return self._now_ms - int(sqrt(self._young * self._old))

    def take(self, answer: OffsetAnswer) -> None:
        """The broker's answer for `moment`."""
        asked = self.moment
        if not 0 <= answer.offset <= self._offset:
            self._young = self._now_ms - asked
            return
        self.found_ms = max(asked, answer.timestamp_ms, self.found_ms or 0)
        self._old = max(self._now_ms - self.found_ms, 0.0)
        self.is_over = answer.offset == self._offset or self._old <= self._young


async def record_times(
    cluster: Cluster, places: Mapping[TopicPartition, int], now_ms: int
) -> Mapping[TopicPartition, int | None]:
    """The newest time stamp (epoch ms) of each partition up to the first record from an offset on; None where
    it cannot be found. Those without a leader are left out. `MOST_QUESTIONS` to each leader at most.

    Raises Unreachable, Refused.
    """
    searches = {place: TimeSearch(offset, now_ms) for place, offset in places.items()}
    asked = dict(searches)
    for _ in range(MOST_QUESTIONS):
        if not asked:
            break
        moments = {place: search.moment for place, search in asked.items()}
        answers = await cluster.offsets(moments, seconds=_LEADER_SECONDS)
        for place, search in list(asked.items()):
            if answers[place].error:
                del searches[place], asked[place]
                continue
            search.take(answers[place])
            if search.is_over:
                del asked[place]
    return dict(_found(searches))


def _found(searches: Mapping[TopicPartition, TimeSearch]) -> Iterator[tuple[TopicPartition, int | None]]:
    for place, search in searches.items():
        yield place, search.found_ms
