"""Topics that a source cluster hides, because this service may not describe them."""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from mirror.bulkheads import Bulkhead
from mirror.instance.background_calls import BackgroundCalls, CallPending
from mirror.loggers import get_logger
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.reasons import reason_of
from mirror.ports import Clock, TopicAdmin

_log = get_logger(__name__)
_ASK_AGAIN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Hidden:
    """Topics that the source cluster hides from this service. `found`: those of `names` for which the service
    lacked the permission Describe at `requested_at`."""

    names: frozenset[str]
    requested_at: float
    found: frozenset[str] = frozenset()


class HiddenTopics:
    """Finds topics that a source cluster hides, with requests every minute and when the names change."""

    def __init__(
        self, admin_of: Callable[[ClusterRef], TopicAdmin], clock: Clock, background_calls: BackgroundCalls
    ) -> None:
        self._admin_of = admin_of
        self._clock = clock
        self._background_calls = background_calls
        self._known: dict[DatastreamName, _Hidden] = {}

    def of(self, datastream: Datastream, names: frozenset[str]) -> frozenset[str]:
        """Return the topics among `names` that the source hides, as of the last response. `names`: topics
        that the datastream names, but its source does not list."""
        known, name = self._known.get(datastream.name), datastream.name
        if not names:
            self._known.pop(name, None)
            return frozenset()
        now = self._clock.monotonic()
        if known is None or known.names != names or now - known.requested_at >= _ASK_AGAIN_SECONDS:
            known = self._known[name] = self._ask(datastream, names, now)
        return known.found

    def forget_all_but(self, names: Set[DatastreamName]) -> None:
        """Drop the cached results of all other datastreams."""
        self._known = {name: hidden for name, hidden in self._known.items() if name in names}

    def _ask(self, datastream: Datastream, names: frozenset[str], now: float) -> _Hidden:
        """Request which topics the source hides from this service."""
        source, before = datastream.source, self._known.get(datastream.name, _Hidden(frozenset(), -math.inf))
        job = partial(self._admin_of(source).hidden, sorted(names))
        failed = partial(_log.info, "cannot check missing topics", cluster=source)
        try:
            with Bulkhead(lambda error: failed(reason=reason_of(error)), through=(CallPending,)):
                found = self._background_calls.ask(
                    f"discovery at {source}", f"hidden from {datastream.name}", job
                )
                return _Hidden(names, now, found)
        except CallPending:
            return replace(before, found=before.found & names)
        return _Hidden(names, now, before.found & names)
