"""Claims that the demonstration checks, with their evidence. They determine its exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the demonstration, whether it was confirmed, and the measurement."""

    statement: str
    held: bool
    evidence: str


@dataclass(frozen=True, slots=True)
class TaskLoads:
    """Load of each task at one time, in bytes per second."""

    title: str
    loads: Mapping[str, float]

    @property
    def largest_over_mean(self) -> float:
        """Largest load divided by the mean; 1.0 means perfectly even."""
        values = list(self.loads.values())
        mean = sum(values) / len(values) if values else 0.0
        return max(values) / mean if mean else 1.0


@dataclass(frozen=True, slots=True)
class LatencyPhase:
    """Latency of the datastream during one phase of the demonstration, in ms."""

    title: str
    p50_ms: float
    p99_ms: float
    records: int


@dataclass
class DemoFindings:
    """Findings of the demonstration for its report, collected while it runs."""

    claims: list[Claim] = field(default_factory=list)
    task_loads: list[TaskLoads] = field(default_factory=list)
    latency: list[LatencyPhase] = field(default_factory=list)
    latency_line: list[tuple[float, float, float]] = field(default_factory=list)
    """Seconds since the start, and p50 and p99 of the preceding seconds, in ms."""
    marks: list[tuple[float, str]] = field(default_factory=list)
    """Seconds since the start, and the event."""
    hot_query: str = ""
    hot_rows: Sequence[Mapping[str, object]] = ()
    moves: Sequence[Mapping[str, object]] = ()
    audit: Sequence[Mapping[str, object]] = ()
    seconds: float = 0.0
    reached: str = ""
    """Name of the last part that was started."""
    stopped: str = ""
    """Reason for a premature end; empty otherwise."""

    def reach(self, part: str) -> None:
        """Record which part of the demonstration has started."""
        self.reached = part

    def stop_at(self, reason: str) -> None:
        """Record that the demonstration has ended early, in the current part."""
        self.stopped = f"the demonstration stopped at {self.reached!r}: {reason}"

    def claim(self, statement: str, held: bool, evidence: str) -> Claim:
        """Add a claim with its evidence, and return it."""
        claim = Claim(statement, held, evidence)
        self.claims.append(claim)
        return claim

    @property
    def all_held(self) -> bool:
        """True if the demonstration was completed and every claim was confirmed."""
        return not self.stopped and bool(self.claims) and all(claim.held for claim in self.claims)
