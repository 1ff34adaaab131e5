"""Stored lanes of a datastream, parsed only when a position of the lane is translated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from json import loads

from mirror.jobs.groups.log import GroupLog
from mirror.lane.offset_map import CHUNK, MapRun
from mirror.lane.progress import LaneProgress, chunk_key, main_key
from mirror.lane.progress_decoder import read_progress
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicSelection


@dataclass(frozen=True)
class _ParsedLane:
    """A stored lane after parsing. `raw`: its main record. `chunks`: chunks of its offset map, in order."""

    raw: bytes | None
    progress: LaneProgress
    chunks: list[bytes]


class LazyLanes(Mapping[LaneKey, LaneProgress]):
    """Stored lanes of a datastream. A lane is parsed on demand, and again after a checkpoint.

    An offset map may have a million runs, so unchanged chunks are not parsed again. The previous offset map
    is extended in place, and must not be used afterwards.
    """

    def __init__(self, log: GroupLog, state: GroupName, topics: TopicSelection) -> None:
        self._log = log
        self._state = state
        self._topics = topics
        self._keys: dict[LaneKey, None] = {}
        self._log_keys = -1
        self._parsed: dict[LaneKey, _ParsedLane] = {}

    def refresh_if_grown(self) -> None:
        """Find the stored lanes again if the number of keys in the progress topic has changed."""
        if self._log.keys != self._log_keys:
            self.refresh()

    def refresh(self) -> None:
        """Find the stored lanes after a read of the progress topic."""
        self._log_keys = self._log.keys
        found = (key for key in self._log.keys_of(self._state) if self._topics.matches(key.partition.topic))
        self._keys = dict.fromkeys(found)
        self._parsed = {key: lane for key, lane in self._parsed.items() if key in self._keys}

    def __getitem__(self, key: LaneKey) -> LaneProgress:
        if key not in self._keys:
            raise KeyError(key)
        raw = self._log.main_record(key)
        if raw is None:
            raise KeyError(key)
        known = self._parsed.get(key)
        if known is None or known.raw is not raw:
            stored = self._log.records_of(key)
            lane = _extended(key, raw, stored, self._parsed.pop(key, None)) or _parsed(key, raw, stored)
            known = self._parsed[key] = lane
        return known.progress

    def __iter__(self) -> Iterator[LaneKey]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _parsed(key: LaneKey, raw: bytes, stored: Mapping[bytes, bytes]) -> _ParsedLane:
    """Parse all stored records of a lane. Raises CorruptData, NewerFormat."""
    progress = read_progress(key, stored)
    assert progress is not None, "its main record is stored"
    return _ParsedLane(raw, progress, [stored[name] for name in _chunk_keys(key, progress)])


def _extended(
    key: LaneKey, raw: bytes, stored: Mapping[bytes, bytes], before: _ParsedLane | None
) -> _ParsedLane | None:
    """Extend the offset map of a lane. Return None if the first chunks have changed or are missing. Raises
    CorruptData, NewerFormat."""
    if before is None:
        return None
    progress = read_progress(key, _WithoutChunks({main_key(key): raw}))
    assert progress is not None, "the main record is given"
    chunks = [stored[name] for name in _chunk_keys(key, progress) if name in stored]
    whole, old, new = before.progress.offset_map, before.chunks, progress.offset_map
    if whole.first_index != new.first_index or new.first_index % CHUNK:
        return None
    if len(chunks) != new.sealed // CHUNK - new.first_index // CHUNK or len(chunks) < len(old):
        return None
    if any(chunk is not other for chunk, other in zip(old, chunks, strict=False)):
        return None
    whole.truncate(len(old) * CHUNK)
    for chunk in chunks[len(old) :]:
        whole.extend(MapRun(*run) for run in loads(chunk))
    whole.extend(new)
    whole.sealed = new.sealed
    return _ParsedLane(raw, replace(progress, offset_map=whole), chunks)


def _chunk_keys(key: LaneKey, progress: LaneProgress) -> list[bytes]:
    """Return the keys of the stored chunks of the lane's offset map, in order."""
    first, sealed = progress.offset_map.first_index, progress.offset_map.sealed
    return [chunk_key(key, number) for number in range(first // CHUNK, sealed // CHUNK)]


class _WithoutChunks(dict[bytes, bytes]):
    """Mapping in which missing chunks of a lane's offset map are empty, so that the lane can be parsed."""

    def __missing__(self, key: bytes) -> bytes:
        return b"[]"
