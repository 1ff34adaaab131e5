"""Stored lanes of a datastream whose groups follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mirror.jobs.groups.log import GroupLog
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicSelection


class LazyLanes(Mapping[LaneKey, LaneProgress]):
    """Stored lanes of a datastream, parsed when a position requires one, and again after a change."""

    def __init__(self, log: GroupLog, state: GroupName, topics: TopicSelection) -> None:
        self._log = log
        self._state = state
        self._topics = topics
        self._keys: dict[LaneKey, None] = {}
        self._parsed: dict[LaneKey, tuple[bytes | None, LaneProgress]] = {}

    def refresh(self) -> None:
        """Find the lanes as of the last read of the progress topic."""
        found = (key for key in self._log.keys_of(self._state) if self._topics.matches(key.partition.topic))
        self._keys = dict.fromkeys(found)
        self._parsed = {key: progress for key, progress in self._parsed.items() if key in self._keys}

    def __getitem__(self, key: LaneKey) -> LaneProgress:
        if key not in self._keys:
            raise KeyError(key)
        raw = self._log.main_record(key)
        known = self._parsed.get(key)
        if known is None or known[0] is not raw:
            progress = self._log.stored(key)
            if progress is None:
                raise KeyError(key)
            known = self._parsed[key] = (raw, progress)
        return known[1]

    def __iter__(self) -> Iterator[LaneKey]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
