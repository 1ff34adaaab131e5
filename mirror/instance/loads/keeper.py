"""Stores the leader's observations, and restores those of the former leader."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.errors import HeadraceError, Unreachable
from mirror.instance.loads.observations import LoadMemory, Observation, Snapshot
from mirror.instance.loads.store import DatedObservation, ObservationStore, StoredObservations
from mirror.loggers import get_logger
from mirror.model.load import LoadReport, LoadSource
from mirror.model.reasons import reason_of
from mirror.ports import Clock

_log = get_logger(__name__)


class MemoryKeeper:
    """Stores and restores observed loads. Used by the leader's thread."""

    def __init__(self, memory: LoadMemory, store: ObservationStore, clock: Clock) -> None:
        self._memory = memory
        self._store = store
        self._clock = clock
        self._names: dict[LoadSource, dict[float, str]] = {}
        self._problems: dict[LoadSource, str] = {}

    @property
    def problems(self) -> Mapping[LoadSource, str]:
        """Map each source to the errors of reading or storing its observations since the last success."""
        return self._problems

    def take_up(self) -> None:
        """Read the observed loads that the former leader stored. Raises Unreachable, SessionLost."""
        for source in self.restore():
            self._store.forget(source)

    def restore(self) -> list[LoadSource]:
        """Restore the stored observations. Return the load sources without observations of the last day."""
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        self._names, self._problems = {}, {}
        outdated = []
        for source, kept in self._store.read(now_ms).items():
            if kept.problems:
                self._problems[source] = "; ".join(kept.problems)
                _log.warning("load observations ignored", source=str(source), reason=self._problems[source])
            if kept.observations:
                self._restore(source, kept, now, now_ms)
            elif not kept.problems:
                outdated.append(source)
        return outdated

    def keep(self, source: LoadSource) -> None:
        """Store the new observations of a source. A failure is logged, and recorded as a problem unless the
        store is unreachable. The next observation retries."""
        observations = self._memory.all_of(source)
        known = self._names.get(source, {})
        names = {
            observation.at_seconds: known[observation.at_seconds]
            for observation in observations
            if observation.at_seconds in known
        }
        new = [observation for observation in observations if observation.at_seconds not in names]
        try:
            written = self._store.write(
                source, tuple(names.values()), [self._dated(observation) for observation in new]
            )
        except Unreachable as error:
            _log.warning("load observations not stored", source=str(source), reason=str(error))
        except HeadraceError as error:
            self._problems[source] = reason_of(error)
            _log.warning("load observations not stored", source=str(source), reason=self._problems[source])
        else:
            pairs = zip((observation.at_seconds for observation in new), written, strict=True)
            self._names[source] = names | dict(pairs)
            self._problems.pop(source, None)

    def _restore(self, source: LoadSource, kept: StoredObservations, now: float, now_ms: int) -> None:
        """Restore the observations of one source. Times in the future, from another clock, become the current
        time."""
        in_order = sorted(kept.observations.items(), key=lambda item: item[1].at_ms)
        observations: list[Observation] = []
        self._names[source] = {}
        for number, (name, dated) in enumerate(in_order):
            latest = now - (len(in_order) - number) / 1000
            at_seconds = min(now - (now_ms - dated.at_ms) / 1000, latest)
            before = observations[-1].loads if observations else None
            observations.append(Observation(at_seconds, dated.measured_at_ms, Snapshot(dated.loads, before)))
            self._names[source][at_seconds] = name
        self._memory.restore(source, observations)
        _, last = in_order[-1]
        known_ms = self._memory.newest.measured_at_ms(source)
        if known_ms is None or known_ms < (last.measured_at_ms or last.at_ms):
            self._memory.newest.note(source, LoadReport(last.loads, "kept", last.measured_at_ms), now_ms)
        _log.info("load observations restored", source=str(source), observations=len(observations))

    def _dated(self, observation: Observation) -> DatedObservation:
        ago_ms = round((self._clock.monotonic() - observation.at_seconds) * 1000)
        return DatedObservation(self._clock.now_ms() - ago_ms, observation.measured_at_ms, observation.loads)
