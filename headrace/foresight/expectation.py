"""Loads that plans expect at a source cluster, from the forecasts of its datastream groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from assigner.advice.settings import AdviceSettings
from headrace.foresight.history import HOUR_MS, Loads
from mirror.instance.loads.expectation import Expectation
from mirror.model.identifiers import GroupName
from mirror.model.load import PartitionLoad
from mirror.model.topics import TopicPartition

if TYPE_CHECKING:
    from assigner.forecast.outlook import Outlook

Trusted = Mapping[GroupName, "tuple[Outlook | None, str]"]
"""Forecast and reason by group.

The forecast is None if it must not influence plans, and the reason says why.
"""


class JointLoads(Mapping[TopicPartition, PartitionLoad]):
    """Partition loads of several datastream groups in one hour, as one mapping.

    `owners`: number of the group whose forecast contains the partition, by partition. `loads`: loads of the
    partitions, by number of the group.
    """

    def __init__(self, owners: Mapping[TopicPartition, int], loads: Mapping[int, Loads]) -> None:
        self._owners = owners
        self._loads = loads

    def __getitem__(self, partition: TopicPartition) -> PartitionLoad:
        return self._loads[self._owners[partition]][partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return (
            partition for partition, owner in self._owners.items() if partition in self._loads.get(owner, ())
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)


def expectation_of(found: Trusted, settings: AdviceSettings, now_ms: int) -> Expectation:
    """Return the upper bounds of the load forecasts for all hours that plans may use until the next
    computation."""
    counted = max(settings.imminent_hours, settings.consent_hours) + 1
    until = now_ms + counted * HOUR_MS + int(settings.interval_seconds * 1000)
    owners: dict[TopicPartition, int] = {}
    hours: dict[int, dict[int, Loads]] = {}
    totals: dict[GroupName, dict[int, float]] = {}
    for owner, (group, (outlook, _)) in enumerate(found.items()):
        if outlook is None:
            continue
        for number, hour_ms in enumerate(outlook.hours_ms):
            if now_ms < hour_ms + HOUR_MS and hour_ms < until:
                total = totals.setdefault(group, {})[hour_ms] = float(outlook.totals.high[number])
                hours.setdefault(hour_ms, {})[owner] = outlook.loads(number, total)
        if group in totals:
            owners.update(dict.fromkeys(outlook.places, owner))
    why = "" if hours else next((why for _, why in found.values() if why), "")
    joint = {hour: JointLoads(owners, loads) for hour, loads in hours.items()}
    return Expectation(joint, settings.imminent_hours, settings.consent_hours, why, totals)
