"""Release gate: checks whether a canary stayed within its limits during its whole run. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from monitor.canary.ledger import CanaryFigures


@dataclass(frozen=True, slots=True)
class GateLimits:
    """Limits that a canary must meet for a release. `min_availability`: minimum share of acknowledged
    writes."""

    max_delay_ms: int
    max_lost: int
    min_availability: float


@dataclass(frozen=True, slots=True)
class GateFailure:
    """A limit that a canary did not meet. `value`: measured value, None if nothing was measured."""

    limit: str
    value: float | None
    allowed: float
    sentence: str


@dataclass(frozen=True, slots=True)
class GateResult:
    """Results of a canary's run, and the limits that it did not meet.

    `lost`: includes records that had not arrived at the end of the run. `availability`: share of acknowledged
    writes, None without writes.
    """

    figures: CanaryFigures
    lost: int
    availability: float | None
    failures: tuple[GateFailure, ...]

    @property
    def is_passed(self) -> bool:
        """True if the run of the canary met all limits."""
        return not self.failures


def judge_gate(figures: CanaryFigures, limits: GateLimits) -> GateResult:
    """Evaluate the finished run of a canary. Records still waiting have had at least `max_delay_ms` to
    arrive."""
    lost = figures.lost + figures.waiting
    attempts = figures.produced + figures.failed
    availability = figures.produced / attempts if attempts else None
    return GateResult(figures, lost, availability, tuple(_failures(figures, limits, lost, availability)))


def _failures(
    figures: CanaryFigures, limits: GateLimits, lost: int, availability: float | None
) -> Iterator[GateFailure]:
    least = limits.min_availability
    if availability is None or availability < least:
        text = "no record was written" if availability is None else f"{figures.failed} writes failed"
        yield GateFailure("min_availability", availability, least, f"source unavailable: {text}")
    if figures.slowest_ms is None:
        if figures.produced:
            text = "no record arrived whose delay could be measured"
            yield GateFailure("max_delay_ms", None, limits.max_delay_ms, text)
    elif figures.slowest_ms > limits.max_delay_ms:
        text = f"the slowest record took {figures.slowest_ms:.0f} ms, {limits.max_delay_ms} ms are allowed"
        yield GateFailure("max_delay_ms", figures.slowest_ms, limits.max_delay_ms, text)
    if lost > limits.max_lost:
        text = f"lost records: {lost}, of which {figures.waiting} had not arrived at the end"
        yield GateFailure("max_lost", lost, limits.max_lost, text)
