"""Keeps the leader's observations where the next leader finds them, and takes up those of the last one."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from mirror.coordination.stores.problems import reason_of
from mirror.errors import HeadraceError, Unreachable
from mirror.instance.loads.observations import LoadMemory, Observation, Snapshot
from mirror.instance.loads.store import Dated, Kept, ObservationStore
from mirror.model.identifiers import ClusterRef
from mirror.model.load import LoadReport
from mirror.ports import Clock

_log = structlog.get_logger(__name__)


class MemoryKeeper:
    """Used by the leader's thread."""

    def __init__(self, memory: LoadMemory, store: ObservationStore, clock: Clock) -> None:
        self._memory = memory
        self._store = store
        self._clock = clock
        self._names: dict[ClusterRef, dict[float, str]] = {}
        self._problems: dict[ClusterRef, str] = {}

    @property
    def problems(self) -> Mapping[ClusterRef, str]:
        """What of a cluster's observations could not be read or kept; until they have been kept again."""
        return self._problems

    def take_up(self) -> None:
        """Begin to lead with what the leader before knew. Raises Unreachable, SessionLost."""
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        self._names, self._problems = {}, {}
        for cluster, kept in self._store.read(now_ms).items():
            if kept.problems:
                self._problems[cluster] = "; ".join(kept.problems)
                _log.warning("observations left out", cluster=cluster, reason=self._problems[cluster])
            if kept.observations:
                self._restore(cluster, kept, now, now_ms)
            elif not kept.problems:
                self._store.forget(cluster)  # nothing of the last day

    def keep(self, cluster: ClusterRef) -> None:
        """Store what has been observed of the cluster since. What cannot be stored is a problem and held up
        nothing; the next observation tries again."""
        observations = self._memory.all_of(cluster)
        known = self._names.get(cluster, {})
        names = {one.at_seconds: known[one.at_seconds] for one in observations if one.at_seconds in known}
        new = [one for one in observations if one.at_seconds not in names]
        try:
            written = self._store.write(cluster, tuple(names.values()), [self._dated(one) for one in new])
        except Unreachable as error:
            _log.warning("observations not kept", cluster=cluster, reason=str(error))
        except HeadraceError as error:
            self._problems[cluster] = reason_of(error)
            _log.warning("observations not kept", cluster=cluster, reason=self._problems[cluster])
        else:
            pairs = zip((one.at_seconds for one in new), written, strict=True)
            self._names[cluster] = names | dict(pairs)
            self._problems.pop(cluster, None)

    def _restore(self, cluster: ClusterRef, kept: Kept, now: float, now_ms: int) -> None:
        """Clocks of two machines differ: what seems to be of the future was observed just now."""
        in_order = sorted(kept.observations.items(), key=lambda item: item[1].at_ms)
        observations: list[Observation] = []
        self._names[cluster] = {}
        for number, (name, one) in enumerate(in_order):
            latest = now - (len(in_order) - number) / 1000
            at_seconds = min(now - (now_ms - one.at_ms) / 1000, latest)
            before = observations[-1].loads if observations else None
            observations.append(Observation(at_seconds, one.measured_at_ms, Snapshot(one.loads, before)))
            self._names[cluster][at_seconds] = name
        self._memory.restore(cluster, observations)
        _, last = in_order[-1]
        known_ms = self._memory.newest.measured_at_ms(cluster)
        if known_ms is None or known_ms < (last.measured_at_ms or last.at_ms):
            self._memory.newest.note(cluster, LoadReport(last.loads, "kept", last.measured_at_ms), now_ms)
        _log.info("observations taken up", cluster=cluster, observations=len(observations))

    def _dated(self, one: Observation) -> Dated:
        ago_ms = round((self._clock.monotonic() - one.at_seconds) * 1000)
        return Dated(self._clock.now_ms() - ago_ms, one.measured_at_ms, one.loads)
