"""Stores the costs of copying, and derives the capacity of tasks from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final

from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.record_folder import RecordFolder
from mirror.errors import CorruptData, InvalidRequest
from mirror.instance.loads.assessments import Assessment
from mirror.loggers import get_logger
from mirror.model import bounds
from mirror.model.capacity.capacity import CapacityInUse, CapacityTerms, capacity_in_use
from mirror.model.capacity.costs import HOUR_MS, KEPT_HOURS, CostSums, GroupCosts, learned, merged_hours
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.policy import LARGEST_RATE
from mirror.model.identifiers import GroupName, InstanceName
from mirror.model.reasons import damage_of
from mirror.ports import Clock, NodeStore
from mirror.wording import counted

_log = get_logger(__name__)
_FORMAT: Final = 1
_MOST_GROUPS: Final = 300
"""Maximum number of groups whose costs an instance stores, the most expensive first."""
_MOST_OBSERVATIONS: Final = 10**9
_ADDED: Final = 1
"""Number of cost sums that earlier versions did not write. Missing sums count as zero."""
_DIGITS: Final = 7
_UNREADABLE: Final = (CorruptData, InvalidRequest, LookupError, TypeError, ValueError)
_LARGEST: Final[Mapping[str, float]] = {"seconds": 1e9, "cpu_seconds": 1e9, "cpu_squared": 1e18}
_ROUNDING: Final = 1.001
"""Factor by which a stored sum may exceed its mathematical limit because of rounding."""


class CostStore:
    """Stores the CPU cost of copying, as measured and written by each instance."""

    def __init__(self, nodes: NodeStore) -> None:
        self._costs = RecordFolder(nodes, znodes.COSTS, InstanceName, _encode, _legible)

    def put(self, instance: InstanceName, costs: GroupCosts) -> None:
        """Replace the costs of an instance.

        Raises InvalidRequest if the costs do not fit into a node, and VersionConflict after a concurrent
        write.
        """
        self._costs.put(instance, costs)

    def of(self, instance: InstanceName) -> GroupCosts:
        """Return the copying costs of an instance, or nothing if they are missing or unreadable."""
        return self._costs.get(instance) or {}

    def all(self) -> GroupCosts:
        """Return the costs of all instances, merged for each group. Unreadable costs are skipped."""
        found: dict[GroupName, list[Mapping[int, CostSums]]] = {}
        for costs in self._costs.all().values():
            for group, hours in costs.items():
                found.setdefault(group, []).append(hours)
        return {group: merged_hours(several) for group, several in found.items()}

    def forget_old(self, now_ms: int) -> None:
        """Remove the costs of instances without any in the last day. Future times do not count."""
        now = now_ms // HOUR_MS
        for instance, costs in self._costs.all().items():
            hours = {hour for of_group in costs.values() for hour in of_group}
            if not any(now - KEPT_HOURS < hour <= now + 1 for hour in hours):
                self._costs.remove(instance)


def _encode(costs: GroupCosts) -> bytes:
    dearest = sorted(costs, key=lambda group: -_cpu_seconds(costs[group]))[:_MOST_GROUPS]
    document = {"format": _FORMAT, "groups": {group: _rows(costs[group]) for group in dearest}}
    data, *further = node_codec.encode_chunks(document)
    if further:
        raise InvalidRequest(
            f"cannot store the costs of {counted(len(dearest), 'datastream')}: too large for a node"
        )
    return data


def _cpu_seconds(hours: Mapping[int, CostSums]) -> float:
    return sum(hour.cpu_seconds for hour in hours.values())


def _rows(hours: Mapping[int, CostSums]) -> dict[str, list[float]]:
    return {str(hour): [_short(number) for number in astuple(sums)] for hour, sums in hours.items()}


def _short(number: float) -> float:
    return number if isinstance(number, int) else float(f"{number:.{_DIGITS}g}")


def _legible(path: str, data: bytes) -> GroupCosts | None:
    try:
        document = node_codec.decode_chunks([data], path)
        if document.get("format") != _FORMAT:
            return None
        groups = bounds.mapping("groups", bounds.field(document, "groups"))
        return {GroupName(group): _hours(rows) for group, rows in groups.items()}
    except _UNREADABLE as error:
        _log.warning("stored copying costs ignored", path=path, reason=damage_of(error))
        return None


def _hours(value: object) -> dict[int, CostSums]:
    rows = bounds.mapping("hours", value)
    if len(rows) > 2 * KEPT_HOURS:
        raise InvalidRequest(
            f"stored costs cover {counted(len(rows), 'hour')}", advice=f"at most {2 * KEPT_HOURS} are allowed"
        )
    return {bounds.digits("an hour", hour, 0, bounds.LARGEST_MS): _sums(row) for hour, row in rows.items()}


def _sums(row: Any) -> CostSums:
    """Parse the stored cost sums of one hour.

    Raises InvalidRequest if a sum is malformed or mathematically impossible, because impossible sums could
    yield infinite values. For example, a sum of products of positive values cannot exceed the product of the
    sums.
    """
    names = list(CostSums.__dataclass_fields__)
    numbers = bounds.sequence("costs", row, len(names))
    if len(numbers) < len(names) - _ADDED:
        raise InvalidRequest(f"stored costs of an hour have {len(numbers)} of {len(names)} numbers")
    count, *rest = numbers
    observations = bounds.integer("observations", count, 1, _MOST_OBSERVATIONS)
    values = {
        name: bounds.number(name, number, 0, _LARGEST.get(name, 1e30))
        for name, number in zip(names[1:], rest, strict=False)
    }
    found = CostSums(observations, **values)
    for label, value, most in (
        ("bytes and records", found.bytes + found.records, LARGEST_RATE * found.needed_cpu_seconds),
        ("the fastest interval", found.fastest, LARGEST_RATE),
        ("squares of CPU seconds", found.cpu_squared, found.cpu_seconds**2),
        ("squares of bytes", found.bytes_squared, found.bytes**2),
        ("products", found.cpu_bytes, found.cpu_seconds * found.bytes),
        ("spare CPU seconds", found.spare_cpu_seconds, found.cpu_seconds),
    ):
        bounds.number(label, value, 0, most * _ROUNDING)
    return found


_READ_SECONDS: Final = 30.0


class CapacityResolver:
    """Determines the task capacity of each group. Used by one thread at a time. `terms`: returns the capacity
    that datastreams request. `assessments`: returns the result of each group's latest planning run."""

    def __init__(
        self,
        store: CostStore,
        terms: Callable[[Sequence[Datastream]], CapacityTerms],
        assessments: Callable[[], Mapping[GroupName, Assessment]],
        clock: Clock,
    ) -> None:
        self._store = store
        self._terms = terms
        self._assessments = assessments
        self._clock = clock
        self._costs: GroupCosts = {}
        self._read_at: float | None = None

    def of(self, groups: Mapping[GroupName, Sequence[Datastream]]) -> Mapping[GroupName, CapacityInUse]:
        """Return the task capacity of each group. `groups`: datastreams of each group. Raises Unreachable."""
        if not groups:
            return {}
        now_hour, costs, before = self._clock.now_ms() // HOUR_MS, self._newest(), self._assessments()
        found = {}
        for group, members in groups.items():
            last = before[group].capacity if group in before else None
            known = learned(costs[group], now_hour) if group in costs else None
            found[group] = capacity_in_use(self._terms(members), known, last)
        return found

    def tidy(self) -> None:
        """Remove outdated copying costs from the store. Raises Unreachable."""
        self._store.forget_old(self._clock.now_ms())

    def _newest(self) -> GroupCosts:
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= _READ_SECONDS:
            self._costs, self._read_at = self._store.all(), now
        return self._costs
