"""Decodes the stored progress of a lane, and detects records that a former owner wrote too late. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from mirror.errors import CorruptData, InvalidRequest, NewerFormat
from mirror.lane.ledger import Ledger
from mirror.lane.offset_map import CHUNK, MapRun, OffsetMap
from mirror.lane.parts.pause import Pause
from mirror.lane.progress import FORMAT, LaneProgress, Owner, SourceIdentity, chunk_key, main_key
from mirror.model.bounds import LARGEST_OFFSET
from mirror.model.datastreams.lanes import LaneKey

_OWNER: Final = b'"owner":['
_TOPIC_ID_BYTES: Final = 16
_DAMAGE: Final = (
    InvalidRequest,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


def is_outdated(stored: bytes, newer: bytes) -> bool:
    """Return whether `newer` was written by a former owner after the current owner wrote `stored`. A frozen
    owner writes outdated progress, recognizable by its lower producer epoch."""
    if _has_same_owner(stored, newer):
        return False
    before, after = _owner(stored), _owner(newer)
    if not before or after is None:
        return False
    return not after or (after[0] == before[0] and after[1] < before[1])


def _has_same_owner(value: bytes, former: bytes) -> bool:
    """Return whether both records have the same owner, without decoding them. Returns False if unclear. The
    searched text cannot occur within JSON strings, because their quotes are escaped."""
    start, other = value.find(_OWNER), former.find(_OWNER)
    if start < 0 or other < 0 or value.rfind(_OWNER) != start or former.rfind(_OWNER) != other:
        return False
    end, other_end = value.find(b"]", start), former.find(b"]", other)
    return end > 0 and value[start:end] == former[other:other_end]


def written_at(value: bytes) -> tuple[int, int]:
    """Return write time (epoch ms) and checkpoint of a progress record; (-1, -1) if it is unreadable."""
    try:
        document = json.loads(value)
        return int(document.get("written_ms", -1)), int(document["next_offset"])
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return -1, -1


def _owner(value: bytes) -> list[int] | None:
    """Return producer id and epoch in a progress record. Empty if the lane never wrote, None if unknown."""
    try:
        owner = json.loads(value).get("owner")
    except (ValueError, AttributeError, RecursionError):
        return None
    return owner if _is_owner(owner) else None


def _is_owner(value: object) -> bool:
    return isinstance(value, list) and len(value) in (0, 2) and all(type(number) is int for number in value)


def read_progress(key: LaneKey, stored: Mapping[bytes, bytes]) -> LaneProgress | None:
    """Return a lane's progress from the latest value of every key, or None. Raises CorruptData for invalid
    values, and NewerFormat for values of a later version."""
    value = stored.get(main_key(key))
    if value is None:
        return None
    try:
        document = json.loads(value)
        if document.get("format", FORMAT) > FORMAT:
            raise NewerFormat(
                f"progress of {key.partition} has format {document['format']}, newer than {FORMAT}",
                advice="run the newer version of Headrace again",
            )
        return _progress(key, document, stored)
    except _DAMAGE as error:
        raise CorruptData(
            f"cannot read the stored progress of {key.partition}: {error!r}",
            advice=f"write a valid record under key {main_key(key).decode()} to the progress topic, or"
            ' {"next_offset": N} to continue at source offset N',
        ) from error


def _progress(key: LaneKey, document: Mapping[str, Any], stored: Mapping[bytes, bytes]) -> LaneProgress:
    next_offset = _number(document, "next_offset")
    version = (str(document.get("engine", "")), _number(document, "written_ms", 0), next_offset)
    if "ledger" not in document:
        return LaneProgress(Ledger(next_offset), OffsetMap(), version=version)
    return LaneProgress(
        ledger=Ledger.from_json(document["ledger"], next_offset),
        offset_map=_offset_map(key, document["map"], stored),
        source=SourceIdentity(
            _topic_id(document, "source_id"),
            _number(document, "epoch", least=-1),
            str(document.get("source_cluster", "")),
        ),
        target_id=_topic_id(document, "target_id"),
        target_next=_number(document, "target_next") if "target_next" in document else None,
        clean=bool(document["clean"]),
        life=_number(document, "life", 0),
        pause=_pause(document),
        gaps=[str(gap) for gap in document.get("gaps", ())],
        target_loss=str(document.get("target_loss", "")),
        target_topic=str(document.get("target", key.partition.topic)),
        target_cluster=str(document.get("target_cluster", "")),
        restart_ms=_number(document, "restart", 0),
        owner=_producer(document),
        version=version,
        caught_up=_number(document, "caught_up", 0),
        owned_from=_number(document, "owned_from") if "owned_from" in document else None,
        source_end=_number(document, "source_end", -1, least=-1),
    )


def _number(document: Mapping[str, Any], name: str, default: int | None = None, *, least: int = 0) -> int:
    value = document[name] if default is None else document.get(name, default)
    if type(value) is not int or not least <= value <= LARGEST_OFFSET:
        raise ValueError(f"invalid value of {name}: {value!r:.100}")
    return value


def _pause(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the stored pause of a lane, after a check that it can be restored."""
    pause: Mapping[str, Any] | None = document.get("pause")
    if pause is not None:
        Pause.from_json(pause)
    return pause


def _producer(document: Mapping[str, Any]) -> Owner | None:
    """Return producer id and epoch of the lane's owner, None if the lane never wrote."""
    owner = document.get("owner")
    if owner is None:
        return None
    if not _is_owner(owner):
        raise ValueError(f"invalid value of owner: {owner!r:.100}")
    return (owner[0], owner[1]) if owner else None


def _topic_id(document: Mapping[str, Any], name: str) -> bytes:
    found = bytes.fromhex(document[name])
    if len(found) not in (0, _TOPIC_ID_BYTES):
        raise ValueError(f"invalid length of {name}: {len(found)} bytes")
    return found


def _offset_map(key: LaneKey, document: Mapping[str, Any], stored: Mapping[bytes, bytes]) -> OffsetMap:
    first, sealed = _number(document, "first"), _number(document, "sealed")
    offset_map = OffsetMap(first)
    for number in range(first // CHUNK, sealed // CHUNK):
        runs = json.loads(stored[chunk_key(key, number)])
        offset_map.extend(MapRun(*run) for run in runs)
    offset_map.extend(MapRun(*run) for run in document["runs"])
    offset_map.sealed = sealed
    return offset_map
