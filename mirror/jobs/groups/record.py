"""Serialises the state of a synchronised consumer group, a record in the progress topic of the destination.
Pure.

The record key is `STATE/DATASTREAM.GROUP`. STATE is the group of datastreams that shares progress. DATASTREAM
and GROUP are names in base64, because the name of a consumer group may contain any character. The value is
JSON; readers ignore unknown fields. The record `STATE/DATASTREAM.~round` contains the time of the last
complete pass, in which all brokers listed their groups.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from mirror.errors import CorruptData, HeadraceError, NewerFormat, NotAuthorized, Refused
from mirror.jobs.groups.decision import FollowReason, SyncedPosition
from mirror.jobs.groups.lead import Lead, PendingCommit, Side
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.reasons import reason_of
from mirror.model.topics import TopicPartition
from mirror.protocol.control.groups import SHARE

FORMAT: Final = 1
_ROUND: Final = b"~round"


class FollowedPosition(NamedTuple):
    """Synchronised position of a group in one partition of the source.

    `source`: committed offset at the source. `target`: committed offset at the destination, None if there is
    none. `copy`: partition at the destination. `is_exact`: whether all records before the position are
    mirrored; if not, the position at the destination is a lower bound. `synced`: offsets after the last
    synchronisation. `lead`: cluster that led; None without two-way synchronisation.
    """

    source: int
    target: int | None
    copy: TopicPartition
    reason: FollowReason
    is_exact: bool = False
    synced: SyncedPosition | None = None
    lead: Lead | None = None

    @property
    def follows(self) -> bool:
        """Return whether the positions on both clusters correspond to each other."""
        return self.reason.follows


@dataclass(frozen=True, slots=True)
class FollowedGroup:
    """State of a consumer group after the last pass.

    `kind`: type of the group, empty if unknown. `reason`: reason why the whole group is not synchronised;
    None if each position has its own reason. `detail`: error message. `changed_ms`: time of the last change
    of this state, epoch milliseconds.
    """

    group: str
    kind: str = ""
    reason: FollowReason | None = None
    detail: str = ""
    positions: Mapping[TopicPartition, FollowedPosition] = field(default_factory=dict)
    changed_ms: int = 0

    @property
    def may_redeliver(self) -> bool:
        """Return whether records after the positions may be delivered again. The value is True for share
        groups, because brokers do not disclose which records were acknowledged."""
        return self.kind == SHARE

    @property
    def hindrances(self) -> Iterable[FollowReason]:
        """Return the reasons why positions of the group are not synchronised."""
        if self.reason is not None:
            return (self.reason,)
        return {position.reason: None for position in self.positions.values() if not position.follows}

    def is_same(self, other: FollowedGroup) -> bool:
        """Return whether both states of a group are equal, apart from `changed_ms`."""
        return replace(self, changed_ms=0) == replace(other, changed_ms=0)


def failed_group(group: FollowedGroup, error: HeadraceError) -> FollowedGroup:
    """Return the group marked as not synchronised because of an error."""
    reason = FollowReason.NO_RIGHTS if isinstance(error, NotAuthorized) else FollowReason.FAILED
    if group.kind == SHARE and reason is FollowReason.FAILED and isinstance(error, Refused):
        reason = FollowReason.SHARE_GROUP
    return replace(group, reason=reason, detail=reason_of(error))


class GroupKeys(NamedTuple):
    """Keys under which records of one datastream's consumer groups are stored.

    `state`: name of the group of datastreams that shares progress.
    """

    state: GroupName
    datastream: DatastreamName

    @property
    def start(self) -> bytes:
        """Common prefix of all record keys of the datastream."""
        return f"{self.state}/{_encoded(self.datastream)}.".encode()

    @property
    def of_round(self) -> bytes:
        """Key of the record with the time of the last complete pass."""
        return self.start + _ROUND

    def of(self, group: str) -> bytes:
        return self.start + _encoded(group).encode()

    def groups(self, keys: Iterable[bytes]) -> set[str]:
        """Return the names of consumer groups in record keys. Skip keys of other records."""
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
    """Return the record value for a consumer group."""
    topics: dict[str, dict[str, list[Any]]] = {}
    leads: dict[str, dict[str, list[Any]]] = {}
    for place, position in sorted(found.positions.items()):
        if position.lead is not None:
            leads.setdefault(place.topic, {})[str(place.partition)] = _written_lead(position.lead)
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
        **({"leads": leads} if leads else {}),  # apart, so that earlier versions read the positions
    }
    return json.dumps(document, separators=(",", ":")).encode()


def read_group(value: bytes) -> FollowedGroup:
    """Parse the record value of a consumer group. Raises CorruptData, NewerFormat."""
    document = _document(value)
    try:
        leads = {
            TopicPartition(topic, int(number)): _lead(row)
            for topic, partitions in document.get("leads", {}).items()
            for number, row in partitions.items()
        }
        positions = {
            (place := TopicPartition(topic, int(number))): _position(int(number), row, leads.get(place))
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
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise CorruptData(f"the stored state of a consumer group is unreadable: {error!r}") from error


def _written_lead(lead: Lead) -> list[Any]:
    intent = None if lead.intent is None else [lead.intent.leader.value, *lead.intent.positions]
    return [lead.leader.value, lead.seen, intent]


def _lead(row: list[Any]) -> Lead:
    leader, seen, intent = row
    return Lead(
        Side(leader),
        None if seen is None else _pair(seen),
        None if intent is None else PendingCommit(Side(intent[0]), _pair(intent[1:])),
    )


def _pair(row: list[Any]) -> SyncedPosition:
    source, target = row
    return SyncedPosition(int(source), int(target))


def _position(number: int, row: list[Any], lead: Lead | None) -> FollowedPosition:
    source, target, topic, reason, is_exact, *synced = row
    last = _pair(synced[:2]) if synced else None
    present = None if target is None else int(target)
    copy = TopicPartition(str(topic), number)
    return FollowedPosition(int(source), present, copy, _reason(reason), bool(is_exact), last, lead)


def _reason(text: str) -> FollowReason:
    """Parse a FollowReason. Return `FAILED` for a reason that only a newer version knows."""
    try:
        return FollowReason(text)
    except ValueError:
        return FollowReason.FAILED


def write_round(at_ms: int) -> bytes:
    """Return the record value for a complete pass."""
    return json.dumps({"format": FORMAT, "round_ms": at_ms}, separators=(",", ":")).encode()


def read_round(value: bytes) -> int | None:
    """Parse the time of a complete pass. Return None for any other record. Raises NewerFormat."""
    try:
        return int(_document(value)["round_ms"])
    except (CorruptData, ValueError, KeyError, TypeError, OverflowError):
        return None


def read_any_group(key: bytes, value: bytes) -> FollowedGroup | None:
    """Parse a record of a consumer group of any datastream. Return None for the record of a pass. Raises the
    errors of `read_group`."""
    return None if key.endswith(_ROUND) else read_group(value)


class StoredGroups(NamedTuple):
    """All stored consumer groups of a datastream.

    `round_ms`: end of the last complete pass (epoch ms), None before the first. `damaged`: number of
    unreadable records.
    """

    groups: Mapping[str, FollowedGroup]
    round_ms: int | None
    damaged: int = 0


def read_groups(keys: GroupKeys, records: Mapping[bytes, bytes]) -> StoredGroups:
    """Parse the records of a datastream's consumer groups. Raises NewerFormat."""
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
        raise NewerFormat(f"the state of a consumer group has format {version}, the latest known is {FORMAT}")
    found: dict[str, Any] = document
    return found
