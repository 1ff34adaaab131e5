"""Task capacity with which each group is planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mirror.instance.capacity.cost_book import GroupCosts
from mirror.instance.capacity.cost_store import CostStore
from mirror.instance.loads.assessments import Assessment
from mirror.model.capacity.capacity import CapacityInUse, CapacityTerms, capacity_in_use
from mirror.model.capacity.costs import HOUR_MS, learned
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import GroupName
from mirror.ports import Clock

_READ_SECONDS: Final = 30.0


class CapacityBook:
    """Determines capacities. Used by one thread at a time.

    `terms`: returns the capacity that datastreams request. `assessments`: results of the latest planning run
    of each group.
    """

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
        """Return the capacity of each group. `groups`: member datastreams by group. Raises Unreachable."""
        if not groups:
            return {}
        now_hour, costs, before = self._clock.now_ms() // HOUR_MS, self._newest(), self._assessments()
        found = {}
        for group, members in groups.items():
            last = before[group].capacity if group in before else None
            known = learned(costs.get(group, {}), now_hour)
            found[group] = capacity_in_use(self._terms(members), known, last)
        return found

    def tidy(self) -> None:
        """Remove outdated costs. Raises Unreachable."""
        self._store.forget_old(self._clock.now_ms())

    def _newest(self) -> GroupCosts:
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= _READ_SECONDS:
            self._costs, self._read_at = self._store.all(), now
        return self._costs
