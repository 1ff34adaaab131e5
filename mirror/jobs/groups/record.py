"""Stored state of a following group: one record in the progress topic of the destination. Pure codec.

The key is `STATE/DATASTREAM.GROUP`, where STATE is the group of datastreams that shares progress, and both
names are in base64, because a consumer group's name may contain any character. The value is JSON; readers
ignore unknown fields. The record `STATE/DATASTREAM.~round` has the time at which all groups were last read.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from mirror.errors import CorruptData, NewerFormat
from mirror.jobs.groups.decision import FollowReason, SyncedPosition
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.topics import TopicPartition
from mirror.protocol.control.groups import SHARE

FORMAT: Final = 1
_ROUND: Final = b"~round"


class FollowedPosition(NamedTuple):
    """Position of a group in a partition of the source.

    `source`, `target`: committed offsets at both sides; the latter None without one. `copy`: partition at the
    destination. `is_exact`: the mirrored records reach the position; otherwise the position at the
    destination is a lower bound until they do. `synced`: offsets as of the last synchronisation.
    """

    source: int
    target: int | None
    copy: TopicPartition
    reason: FollowReason
    is_exact: bool = False
    synced: SyncedPosition | None = None

    @property
    def follows(self) -> bool:
        """Return whether the destination has this position."""
        return self.reason.follows


@dataclass(frozen=True, slots=True)
class FollowedGroup:
    """A group as of the last round.

    `kind`: type of the group, empty if unknown. `reason`: why no position of the group follows, None if each
    position has a reason of its own. `detail`: error message. `changed_ms`: time of the last change of this
    state, epoch milliseconds.
    """

    group: str
    kind: str = ""
    reason: FollowReason | None = None
    detail: str = ""
    positions: Mapping[TopicPartition, FollowedPosition] = field(default_factory=dict)
    changed_ms: int = 0

    @property
    def may_redeliver(self) -> bool:
        """Return whether records after the positions may be delivered again: brokers do not disclose which
        of them a share group has acknowledged."""
        return self.kind == SHARE

    @property
    def hindrances(self) -> Iterable[FollowReason]:
        """Return the reasons for positions that do not follow."""
        if self.reason is not None:
            return (self.reason,)
        return {position.reason: None for position in self.positions.values() if not position.follows}

    def is_same(self, other: FollowedGroup) -> bool:
        """Return whether both are equal except for the time."""
        return replace(self, changed_ms=0) == replace(other, changed_ms=0)


class GroupKeys(NamedTuple):
    """Keys of the records of one datastream. `state`: group of datastreams that shares its progress."""

    state: GroupName
    datastream: DatastreamName

    @property
    def start(self) -> bytes:
        """Beginning of all keys."""
        return f"{self.state}/{_encoded(self.datastream)}.".encode()

    @property
    def of_round(self) -> bytes:
        """Key of the record about the last complete round."""
        return self.start + _ROUND

    def of(self, group: str) -> bytes:
        """Return the key of a consumer group's record."""
        return self.start + _encoded(group).encode()

    def groups(self, keys: Iterable[bytes]) -> set[str]:
        """Return the names of the consumer groups in keys, without unreadable ones."""
        names = set()
        for key in keys:
            try:
                name = urlsafe_b64decode(key.removeprefix(self.start)).decode()
            except ValueError:  # another kind of record
                continue
            if key == self.of(name):
                names.add(name)
        return names


def _encoded(name: str) -> str:
    return urlsafe_b64encode(name.encode()).decode()


def write_group(found: FollowedGroup) -> bytes:
    """Return the value of a group's record."""
    topics: dict[str, dict[str, list[Any]]] = {}
    for place, position in sorted(found.positions.items()):
        partitions = topics.setdefault(place.topic, {})
        partitions[str(place.partition)] = [
            position.source,
            position.target,
            position.copy.topic,
            position.reason.value,
            int(position.is_exact),
            *(position.synced or ()),
        ]
    document = {
        "format": FORMAT,
        "group": found.group,
        "kind": found.kind,
        "reason": found.reason.value if found.reason is not None else None,
        "detail": found.detail,
        "changed_ms": found.changed_ms,
        "topics": topics,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def read_group(value: bytes) -> FollowedGroup:
    """Return a stored group. Raises CorruptData, NewerFormat."""
    document = _document(value)
    try:
        positions = {
            TopicPartition(topic, int(number)): _position(int(number), row)
            for topic, partitions in document["topics"].items()
            for number, row in partitions.items()
        }
        reason = document["reason"]
        return FollowedGroup(
            str(document["group"]),
            str(document["kind"]),
            None if reason is None else _reason(reason),
            str(document["detail"]),
            positions,
            int(document["changed_ms"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise CorruptData(f"the stored state of a consumer group is unreadable: {error!r}") from error


def _position(number: int, row: list[Any]) -> FollowedPosition:
    source, target, topic, reason, is_exact, *synced = row
    last = SyncedPosition(int(synced[0]), int(synced[1])) if synced else None
    present = None if target is None else int(target)
    copy = TopicPartition(str(topic), number)
    return FollowedPosition(int(source), present, copy, _reason(reason), bool(is_exact), last)


def _reason(text: str) -> FollowReason:
    """Return the reason; `FAILED` for a reason that only a newer version knows."""
    try:
        return FollowReason(text)
    except ValueError:
        return FollowReason.FAILED


def write_round(at_ms: int) -> bytes:
    """Return the value of the record about a complete round."""
    return json.dumps({"format": FORMAT, "round_ms": at_ms}, separators=(",", ":")).encode()


def read_round(value: bytes) -> int | None:
    """Return the time in the record about a complete round; None for another record. Raises NewerFormat."""
    try:
        return int(_document(value)["round_ms"])
    except (CorruptData, ValueError, KeyError, TypeError, OverflowError):
        return None


def read_any_group(key: bytes, value: bytes) -> FollowedGroup | None:
    """Return the group of a record of any datastream; None for a record about a round. Raises as
    `read_group`."""
    return None if key.endswith(_ROUND) else read_group(value)


class StoredGroups(NamedTuple):
    """Stored groups of a datastream by name. `round_ms`: end of the last complete round, epoch
    milliseconds, None if there was none. `damaged`: number of unreadable records."""

    groups: Mapping[str, FollowedGroup]
    round_ms: int | None
    damaged: int = 0


def read_groups(keys: GroupKeys, records: Mapping[bytes, bytes]) -> StoredGroups:
    """Return the groups in the records of a datastream. Raises NewerFormat."""
    groups: dict[str, FollowedGroup] = {}
    round_ms, damaged = None, 0
    for key, value in records.items():
        if not key.startswith(keys.start):
            continue
        try:
            found = read_any_group(key, value)
        except CorruptData:
            damaged += 1
            continue
        if found is None:
            round_ms = read_round(value)
        elif key == keys.of(found.group):
            groups[found.group] = found
        else:
            damaged += 1
    return StoredGroups(groups, round_ms, damaged)


def _document(value: bytes) -> dict[str, Any]:
    try:
        document = json.loads(value)
        version = int(document["format"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise CorruptData(f"the stored state of a consumer group is unreadable: {error!r}") from error
    if version > FORMAT:
        raise NewerFormat(f"the stored state of a consumer group has format {version}, this version {FORMAT}")
    found: dict[str, Any] = document
    return found
