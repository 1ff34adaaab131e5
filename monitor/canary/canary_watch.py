"""Starts and stops the canaries of datastreams with the option `canary` as definitions change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from mirror.bulkheads import Bulkhead
from mirror.errors import HeadraceError
from mirror.loggers import get_logger
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.reasons import reason_of
from mirror.model.topics import TopicNaming, canary_topic
from monitor.canary.ledger import CanaryFigures

_log = get_logger(__name__)


class CanaryPath(NamedTuple):
    """Path of canary records, from their topic at the source to its copy at the destination."""

    source: ClusterRef
    topic: str
    destination: ClusterRef
    copy: str

    @classmethod
    def of(
        cls, datastream: str, source: ClusterRef, destination: ClusterRef, naming: TopicNaming
    ) -> CanaryPath:
        """Return the path of a datastream's canary records."""
        topic = canary_topic(datastream)
        return cls(source, topic, destination, naming.destination(topic))


class Probe(Protocol):
    """A running canary."""

    @property
    def problem(self) -> str:
        """Reason why records currently cannot be written or read; empty if they can."""
        ...

    def start(self) -> None:
        """Start writing and reading canary records. Must not block."""
        ...

    def stop(self) -> None:
        """Stop the canary. Must not block."""
        ...

    def figures(self) -> CanaryFigures:
        """Return the current results of the canary."""
        ...


class CanaryState(NamedTuple):
    """State of a datastream's canary after the last evaluation. `problem`: as in `Probe`, or why the probe
    could not start."""

    path: CanaryPath
    figures: CanaryFigures
    problem: str = ""


Paths = Callable[[], Mapping[DatastreamName, CanaryPath]]
"""Returns the paths of READY datastreams with the option `canary`. Raises HeadraceError."""


class CanaryWatch:
    """Runs one canary probe for each path. Implements `EvaluationListener`; not thread-safe.

    `open_probe`: builds a probe; raises HeadraceError if a cluster cannot be used. `show`: receives the
    results of each evaluation. Running probes continue while the definitions cannot be read.
    """

    def __init__(
        self,
        paths: Paths,
        open_probe: Callable[[CanaryPath], Probe],
        show: Callable[[Mapping[DatastreamName, CanaryFigures]], None],
    ) -> None:
        self._paths = paths
        self._open = open_probe
        self._show = show
        self._probes: dict[DatastreamName, tuple[CanaryPath, Probe]] = {}
        self.states: Mapping[DatastreamName, CanaryState] | None = None
        """Canaries by datastream, None until the definitions were read."""

    def start(self) -> None:
        """Do nothing, because probes start in the first evaluation."""

    def stop(self, _deadline_seconds: float) -> None:
        """Stop all canary probes. Idempotent."""
        for name in list(self._probes):
            self._end(name)
        self.states = None

    def judged(self, _findings: object, _movements: object) -> None:
        """Start and stop canary probes, and collect their results."""
        self.run_once()

    def judging_failed(self, _reason: str, _movements: object) -> None:
        """Start and stop canary probes and collect their results, although no objective was evaluated.

        Canaries do not depend on measurements.
        """
        self.run_once()

    def run_once(self) -> None:
        """Start and stop canary probes according to the definitions, and collect their results."""
        try:
            wanted = self._paths()
        except HeadraceError as error:
            _log.warning("cannot read the datastreams with a canary", reason=str(error))
            if self.states is None:
                return
            wanted = {name: path for name, (path, _) in self._probes.items()}
        for name, (path, _) in list(self._probes.items()):
            if wanted.get(name) != path:
                self._end(name)
        failed: dict[DatastreamName, CanaryState] = {}
        for name in sorted(wanted.keys() - self._probes.keys()):
            path = wanted[name]

            def note(error: Exception, name: DatastreamName = name, path: CanaryPath = path) -> None:
                failed[name] = CanaryState(path, CanaryFigures(), f"cannot start: {reason_of(error)}")

            with Bulkhead(note):
                probe = self._open(path)
                probe.start()
                self._probes[name] = path, probe
        running = {
            name: CanaryState(path, probe.figures(), probe.problem)
            for name, (path, probe) in self._probes.items()
        }
        self.states = failed | running
        self._show({name: state.figures for name, state in self.states.items()})

    def _end(self, name: DatastreamName) -> None:
        self._probes.pop(name)[1].stop()
