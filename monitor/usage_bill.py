"""Attributes measured usage to datastreams and owners, with the cost of transfers and shares of quotas.
Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror.model.datastreams.datastream import Datastream
from pinot.history.points import UsageSum

GB: Final = 10**9
DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class PriceTable:
    """Price of transfers between clusters per 10^9 bytes.

    `per_gb`: price for pairs of clusters that are not in `pairs`, None if unknown.
    """

    per_gb: float | None = None
    pairs: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def cost(self, source: str, destination: str, size_bytes: int) -> float | None:
        """Return the cost of a transfer, or None if its price or its destination is unknown."""
        price = self.pairs.get((source, destination), self.per_gb) if destination else None
        return None if price is None else size_bytes / GB * price


@dataclass(frozen=True, slots=True)
class UsageLine:
    """Usage of one topic by one datastream on one UTC day, which starts at `day_ms`.

    `datastream`: name of the group if no current datastream selects the topic; `owner` and `destination` are
    empty in this case. `bytes`: size as fetched from the source, including batch headers. `cost`: None if
    unknown.
    """

    day_ms: int
    owner: str
    datastream: str
    source: str
    destination: str
    topic: str
    bytes: int
    records: int
    batches: int
    cpu_seconds: float
    cost: float | None


@dataclass(frozen=True, slots=True)
class OwnerUsage:
    """Usage of one owner over the whole queried period. `cost`: None if the cost of any line is unknown.

    `quota_bytes_per_second`: None if the owner has no quota. `quota_share`: mean rate as a share of the
    quota.
    """

    owner: str
    bytes: int
    records: int
    batches: int
    cpu_seconds: float
    cost: float | None
    quota_bytes_per_second: int | None
    quota_share: float | None


def bill(sums: Iterable[UsageSum], datastreams: Sequence[Datastream], prices: PriceTable) -> list[UsageLine]:
    """Compute the usage of each topic, datastream and day; sorted by day, owner, datastream and topic.

    Datastreams that share tasks are measured together. The usage of a topic is attributed to the oldest
    datastream that selects the topic.
    """
    by_group: dict[tuple[str, str], list[Datastream]] = {}
    for datastream in sorted(
        datastreams, key=lambda datastream: (datastream.created_ms or 0, datastream.name)
    ):
        by_group.setdefault((datastream.group, datastream.source), []).append(datastream)
    lines = []
    for measured in sums:
        mine = _selecting(by_group.get((measured.group, measured.cluster), []), measured.topic)
        owner = mine.owner if mine is not None else ""
        destination = mine.destination if mine is not None else ""
        lines.append(
            UsageLine(
                measured.day_ms,
                owner,
                mine.name if mine is not None else measured.group,
                measured.cluster,
                destination,
                measured.topic,
                measured.bytes,
                measured.records,
                measured.batches,
                measured.cpu_ms / 1_000,
                prices.cost(measured.cluster, destination, measured.bytes),
            )
        )
    return sorted(lines, key=lambda line: (line.day_ms, line.owner, line.datastream, line.topic))


def _selecting(candidates: Sequence[Datastream], topic: str) -> Datastream | None:
    """Return the datastream to which the usage of a topic is attributed; None if no datastream selects the
    topic. A datastream that is alone in its group also gets topics that it no longer selects."""
    found = next((datastream for datastream in candidates if datastream.selection.matches(topic)), None)
    return candidates[0] if found is None and len(candidates) == 1 else found


def by_owner(lines: Iterable[UsageLine], quota_of: Callable[[str], int], seconds: float) -> list[OwnerUsage]:
    """Add up the usage of each owner, and sort by usage, largest first.

    `quota_of`: returns the quota of an owner in bytes per second, 0 if there is none. `seconds`: elapsed part
    of the period.
    """
    found: dict[str, list[UsageLine]] = {}
    for line in lines:
        found.setdefault(line.owner, []).append(line)
    sums = [_owner(owner, mine, quota_of(owner), seconds) for owner, mine in found.items()]
    return sorted(sums, key=lambda line: (-line.bytes, line.owner))


def _owner(owner: str, lines: Sequence[UsageLine], quota: int, seconds: float) -> OwnerUsage:
    size = sum(line.bytes for line in lines)
    costs = [line.cost for line in lines]
    known = [cost for cost in costs if cost is not None]
    return OwnerUsage(
        owner,
        size,
        sum(line.records for line in lines),
        sum(line.batches for line in lines),
        sum(line.cpu_seconds for line in lines),
        sum(known) if len(known) == len(costs) else None,
        quota or None,
        size / (quota * seconds) if quota and seconds > 0 else None,
    )
