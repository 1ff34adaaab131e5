"""How much the datastreams of one owner may be, and take, together. Pure.

It is asked of what is new or takes more than before; what is stored runs on. Topics come and grow without a
call: of partitions the leader also decides, each time it looks, which ones wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirror.coordination.matching import Waiting
from mirror.errors import FieldProblem, QuotaExceeded
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.metadata import OWNER
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.wording import counted

EVERY_OTHER: Final = "*"
"""The quota of owners that none is named for."""
Counts = Mapping[str, int]
"""Partitions by source topic."""
_ADVICE: Final = "the operator decides, in [mirror.definitions.quotas] of the settings"


@dataclass(frozen=True, slots=True)
class OwnerQuota:
    """What the datastreams of an owner may be together; 0: any number."""

    datastreams: int = 0
    bytes_per_second: int = 0
    partitions: int = 0


def check_quota(
    quotas: Mapping[str, OwnerQuota], new: Datastream, former: Datastream | None, others: Sequence[Datastream]
) -> None:
    """Raises QuotaExceeded. `former`: what it has been, if it is not new."""
    owner = _owner(new)
    quota = quota_of(quotas, owner)
    mine = [one for one in others if _owner(one) == owner and one.name != new.name]
    comes = former is None or _owner(former) != owner
    if comes and 0 < quota.datastreams <= len(mine):
        _refuse(
            "/owner",
            f"{shown(owner)} has {counted(len(mine), 'datastream')}, and may have {quota.datastreams}",
        )
    if quota.bytes_per_second and (former is None or comes or _takes_more(former, new)):
        _check_rate(quota.bytes_per_second, new, mine, owner)


def quota_of(quotas: Mapping[str, OwnerQuota], owner: str) -> OwnerQuota:
    """What counts for an owner."""
    return quotas.get(owner) or quotas.get(EVERY_OTHER) or OwnerQuota()


def counted_with(
    quotas: Mapping[str, OwnerQuota], new: Datastream, former: Datastream | None, others: Sequence[Datastream]
) -> list[Datastream]:
    """Those whose partitions count against the same quota of partitions as those of a new datastream; none
    where there is no such quota, or the change is none of what it selects."""
    owner = _owner(new)
    if not quota_of(quotas, owner).partitions or (former is not None and _chosen(former) == _chosen(new)):
        return []
    return [new, *(one for one in others if _owner(one) == owner and one.name != new.name)]


def check_partitions(
    quotas: Mapping[str, OwnerQuota],
    new: tuple[Datastream, Counts],
    former: tuple[Datastream, Counts] | None,
    others: Sequence[tuple[Datastream, Counts]],
) -> None:
    """Raises QuotaExceeded. `former`: as in `check_quota`, with what it selects now; `others`: those of the
    same owner. What is not known of them is left to the leader."""
    owner = _owner(new[0])
    most = quota_of(quotas, owner).partitions
    before = [*others, *([former] if former is not None and _owner(former[0]) == owner else [])]
    taken, after = sum(_wanted(before).values()), sum(_wanted([*others, new]).values())
    if most and after > most and after > taken:
        theirs = sum(_wanted(others).values())
        _refuse(
            "/source/topics",
            f"the datastreams of {shown(owner)} may copy {counted(most, 'partition')} "
            f"together, of which {theirs} are"
            f" taken: the {after - theirs} that it would add are not possible",
        )


def waiting_for_quota(
    quotas: Mapping[str, OwnerQuota],
    selected: Sequence[tuple[Datastream, Counts]],
    held: Mapping[GroupName, Counts],
) -> dict[DatastreamName, dict[str, Waiting]]:
    """Topics, by datastream, of which not all may be copied yet. What is copied goes on, however little the
    quota is. What is new of a topic is copied as a whole where it fits, the older datastreams first.
    `selected`: the older first; `held`: what groups copy by the plan."""
    by_owner: dict[str, list[tuple[Datastream, Counts]]] = {}
    for one, counts in selected:
        by_owner.setdefault(_owner(one), []).append((one, counts))
    found: dict[DatastreamName, dict[str, Waiting]] = {}
    for owner, mine in by_owner.items():
        if most := quota_of(quotas, owner).partitions:
            waits = _waiting(owner, most, _wanted(mine), held)
            for one, counts in mine:
                if theirs := {topic: waits[key] for topic in counts if (key := (one.group, topic)) in waits}:
                    found[one.name] = theirs
    return found


_Key = tuple[GroupName, str]
"""A source topic, as one group copies it: datastreams that share tasks copy it once."""


def _waiting(
    owner: str, most: int, wanted: Mapping[_Key, int], held: Mapping[GroupName, Counts]
) -> dict[_Key, Waiting]:
    copied = {key: min(count, held.get(key[0], {}).get(key[1], 0)) for key, count in wanted.items()}
    left, found = most - sum(copied.values()), dict[_Key, int]()
    for key, count in wanted.items():
        more = count - copied[key]
        if more > left and more:
            found[key] = more
        else:
            left -= more
    together = f"the datastreams of {shown(owner)} may copy {counted(most, 'partition')} together"
    told = f"{together}, of which {most - left} are taken"
    return {
        key: Waiting(copied[key], f"{counted(more, 'partition waits', 'partitions wait')}, as {told}")
        for key, more in found.items()
    }


def _wanted(selected: Iterable[tuple[Datastream, Counts]]) -> dict[_Key, int]:
    """In the order of the datastreams, and of the names of their topics."""

    def entries() -> Iterator[tuple[_Key, int]]:
        for one, counts in selected:
            for topic in sorted(counts):
                yield (one.group, topic), counts[topic]

    return dict(entries())


def _chosen(one: Datastream) -> tuple[object, ...]:
    return one.source, one.selection, _owner(one)


def _check_rate(most: int, new: Datastream, mine: Sequence[Datastream], owner: str) -> None:
    """One that says no rate would take what there is."""
    taken, rate = sum(map(_rate, mine)), _rate(new)
    if not rate or taken + rate > most:
        wanted = f"{rate} more are not possible" if rate else "it says not which part of them it takes"
        _refuse(
            "/quota/bytes_per_second",
            f"the datastreams of {shown(owner)} may take {most} bytes per second together, of which {taken}"
            f" are taken: {wanted}",
        )


def _takes_more(former: Datastream, new: Datastream) -> bool:
    before, after = _rate(former), _rate(new)
    return before != after and (after == 0 or 0 < before < after)


def _rate(one: Datastream) -> int:
    return one.policy.bytes_per_second


def _owner(one: Datastream) -> str:
    return one.metadata.get(OWNER, "")


def _refuse(pointer: str, detail: str) -> None:
    raise QuotaExceeded(detail, fields=[FieldProblem(pointer, detail)], advice=_ADVICE)
