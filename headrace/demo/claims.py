"""What the demonstration claims, with the evidence; the exit code depends on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement, whether it held, and what was measured."""

    statement: str
    held: bool
    evidence: str


@dataclass(frozen=True, slots=True)
class TaskLoads:
    """Load by task in bytes per second at one moment."""

    title: str
    loads: Mapping[str, float]

    @property
    def largest_over_mean(self) -> float:
        """1.0 is perfectly even."""
        values = list(self.loads.values())
        mean = sum(values) / len(values) if values else 0.0
        return max(values) / mean if mean else 1.0


@dataclass(frozen=True, slots=True)
class LatencyPhase:
    """Latency of the datastream over one phase, in ms."""

    title: str
    p50_ms: float
    p99_ms: float
    records: int


@dataclass
class Findings:
    """Everything that the report shows, gathered as the story goes."""

    claims: list[Claim] = field(default_factory=list)
    task_loads: list[TaskLoads] = field(default_factory=list)
    latency: list[LatencyPhase] = field(default_factory=list)
    latency_line: list[tuple[float, float, float]] = field(default_factory=list)
    """Seconds since the start, p50 and p99 of the last seconds."""
    marks: list[tuple[float, str]] = field(default_factory=list)
    """Seconds since the start, and what happened then."""
    hot_query: str = ""
    hot_rows: Sequence[Mapping[str, object]] = ()
    moves: Sequence[Mapping[str, object]] = ()
    audit: Sequence[Mapping[str, object]] = ()
    seconds: float = 0.0
    reached: str = ""
    """The part of the story that was played last."""
    stopped: str = ""
    """Why the story ended before its end; empty when it did not."""

    def reach(self, part: str) -> None:
        """The next part begins."""
        self.reached = part

    def stop_at(self, reason: str) -> None:
        """The story ends in the present part."""
        self.stopped = f"the demonstration stopped at {self.reached!r}: {reason}"

    def claim(self, statement: str, held: bool, evidence: str) -> Claim:
        """Add one, and return it."""
        claim = Claim(statement, held, evidence)
        self.claims.append(claim)
        return claim

    @property
    def all_held(self) -> bool:
        """Whether the demonstration succeeded."""
        return not self.stopped and bool(self.claims) and all(claim.held for claim in self.claims)
