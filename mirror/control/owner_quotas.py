"""Quotas for the datastreams of an owner. Pure.

Quotas apply to new datastreams and to increased use. Stored datastreams continue to run. Topics are created
and extended without a request to Headrace, so the leader also decides in each tick which partitions must
wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirror.coordination.partition_selection import IncompleteTopic
from mirror.errors import FieldProblem, QuotaExceeded
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.wording import counted

EVERY_OTHER: Final = "*"
"""Key of the quota for owners without a quota of their own."""
Counts = Mapping[str, int]
"""Maps each source topic to its partition count."""
_ADVICE: Final = "ask the operator to change [mirror.definitions.quotas] of the settings"


@dataclass(frozen=True, slots=True)
class OwnerQuota:
    """Limits for the sum over all datastreams of an owner. 0 means no limit."""

    datastreams: int = 0
    bytes_per_second: int = 0
    partitions: int = 0


def check_quota(
    quotas: Mapping[str, OwnerQuota], new: Datastream, former: Datastream | None, others: Sequence[Datastream]
) -> None:
    """Check the quotas of a definition's owner for datastreams and bytes per second. Raises QuotaExceeded.

    `former`: the definition before a change.
    """
    owner = new.owner
    quota = quota_of(quotas, owner)
    mine = [other for other in others if other.owner == owner and other.name != new.name]
    comes = former is None or former.owner != owner
    if comes and 0 < quota.datastreams <= len(mine):
        _refuse(
            "/owner",
            f"owner {shown(owner)} has {counted(len(mine), 'datastream')}, the limit is {quota.datastreams}",
        )
    if quota.bytes_per_second and (former is None or comes or _takes_more(former, new)):
        _check_rate(quota.bytes_per_second, new, mine, owner)


def quota_of(quotas: Mapping[str, OwnerQuota], owner: str) -> OwnerQuota:
    """Return the owner's quota, or the default quota of other owners."""
    return quotas.get(owner) or quotas.get(EVERY_OTHER) or OwnerQuota()


def counted_with(
    quotas: Mapping[str, OwnerQuota], new: Datastream, former: Datastream | None, others: Sequence[Datastream]
) -> list[Datastream]:
    """Return the datastreams whose partitions count against the quota of an owner.

    Returns an empty list if the owner has no partition quota, or if the change does not affect the topic
    selection.
    """
    owner = new.owner
    if not quota_of(quotas, owner).partitions or (former is not None and _chosen(former) == _chosen(new)):
        return []
    return [new, *(other for other in others if other.owner == owner and other.name != new.name)]


def check_partitions(
    quotas: Mapping[str, OwnerQuota],
    new: tuple[Datastream, Counts],
    former: tuple[Datastream, Counts] | None,
    others: Sequence[tuple[Datastream, Counts]],
) -> None:
    """Check the partition quota of a definition's owner. Raises QuotaExceeded.

    `former`: the definition before a change, with its current partitions. `others`: datastreams of the same
    owner. The leader later checks partitions that are still unknown.
    """
    owner = new[0].owner
    most = quota_of(quotas, owner).partitions
    before = [*others, *([former] if former is not None and former[0].owner == owner else [])]
    taken, after = sum(_wanted(before).values()), sum(_wanted([*others, new]).values())
    if most and after > most and after > taken:
        theirs = sum(_wanted(others).values())
        _refuse(
            "/source/topics",
            f"the datastreams of {shown(owner)} may copy {counted(most, 'partition')} "
            f"together, of which {theirs} are"
            f" taken: cannot add {after - theirs}",
        )


def waiting_for_quota(
    quotas: Mapping[str, OwnerQuota],
    selected: Sequence[tuple[Datastream, Counts]],
    held: Mapping[GroupName, Counts],
) -> dict[DatastreamName, dict[str, IncompleteTopic]]:
    """Return the topics that the quota does not permit to copy completely, for each datastream.

    Partitions that are already copied continue even if they exceed the quota. New partitions of a topic are
    copied only if all of them fit. Older datastreams have precedence. `selected`: datastreams, oldest first.
    `held`: planned partitions by group.
    """
    by_owner: dict[str, list[tuple[Datastream, Counts]]] = {}
    for datastream, counts in selected:
        by_owner.setdefault(datastream.owner, []).append((datastream, counts))
    found: dict[DatastreamName, dict[str, IncompleteTopic]] = {}
    for owner, mine in by_owner.items():
        if most := quota_of(quotas, owner).partitions:
            waits = _waiting(owner, most, _wanted(mine), held)
            for datastream, counts in mine:
                if theirs := {
                    topic: waits[key] for topic in counts if (key := (datastream.group, topic)) in waits
                }:
                    found[datastream.name] = theirs
    return found


_Key = tuple[GroupName, str]
"""A source topic that a group copies. Datastreams that share tasks copy a topic only once."""


def _waiting(
    owner: str, most: int, wanted: Mapping[_Key, int], held: Mapping[GroupName, Counts]
) -> dict[_Key, IncompleteTopic]:
    copied = {key: min(count, held.get(key[0], {}).get(key[1], 0)) for key, count in wanted.items()}
    left, found = most - sum(copied.values()), dict[_Key, int]()
    for key, count in wanted.items():
        more = count - copied[key]
        if more > left and more:
            found[key] = more
        else:
            left -= more
    together = f"the datastreams of {shown(owner)} may copy {counted(most, 'partition')} together"
    quota = f"{together}, of which {most - left} are taken"
    return {
        key: IncompleteTopic(
            copied[key], f"{counted(more, 'partition waits', 'partitions wait')}, as {quota}"
        )
        for key, more in found.items()
    }


def _wanted(selected: Iterable[tuple[Datastream, Counts]]) -> dict[_Key, int]:
    """Map each group and topic to its selected partition count, ordered by datastream and topic name."""

    def entries() -> Iterator[tuple[_Key, int]]:
        for datastream, counts in selected:
            for topic in sorted(counts):
                yield (datastream.group, topic), counts[topic]

    return dict(entries())


def _chosen(datastream: Datastream) -> tuple[object, ...]:
    return datastream.source, datastream.selection, datastream.owner


def _check_rate(most: int, new: Datastream, mine: Sequence[Datastream], owner: str) -> None:
    """Check that the datastreams of an owner respect the quota for bytes per second.

    Rejects a datastream without a rate limit, because its use would be unlimited.
    """
    taken, rate = sum(map(_rate, mine)), _rate(new)
    if not rate or taken + rate > most:
        wanted = f"cannot add {rate}" if rate else "the datastream must set its own limit"
        _refuse(
            "/quota/bytes_per_second",
            f"the datastreams of {shown(owner)} may take {most} bytes per second together, of which {taken}"
            f" are taken: {wanted}",
        )


def _takes_more(former: Datastream, new: Datastream) -> bool:
    before, after = _rate(former), _rate(new)
    return before != after and (after == 0 or 0 < before < after)


def _rate(datastream: Datastream) -> int:
    return datastream.policy.bytes_per_second


def _refuse(pointer: str, detail: str) -> None:
    raise QuotaExceeded(detail, fields=[FieldProblem(pointer, detail)], advice=_ADVICE)
