"""Is a datastream within its latency objective? Pure.

Rule 1. Nothing was measured in the window: UNKNOWN. Missing evidence is never good news.
Rule 2. The oldest record that waits is older than the objective: BREACHED. It will be late when it
        arrives, even if nothing else does.
Rule 3. The objective's percentile of the latencies in the window exceeds it: BREACHED.
Rule 4. Otherwise: WITHIN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from mirror.model.datastream import LatencyObjective
from mirror.model.metrics import percentile_ms


class Standing(StrEnum):
    """Where a datastream stands against its objective."""

    WITHIN = "within"
    BREACHED = "breached"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Observation:
    """What was measured of a datastream in the window. `lag_ms`: age of the oldest waiting record now."""

    records: int
    counts: Sequence[int]
    lag_ms: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement with its reason; `observed_ms` is the objective's percentile, None without records."""

    standing: Standing
    observed_ms: float | None
    sentence: str


def judge(objective: LatencyObjective, observation: Observation | None) -> Verdict:
    """Apply the rules in order."""
    wanted = f"p{objective.percentile:g} within {objective.milliseconds} ms"
    if observation is None:
        return Verdict(Standing.UNKNOWN, None, f"nothing was measured; wanted {wanted}")
    observed = percentile_ms(observation.counts, objective.percentile)
    if observation.lag_ms > objective.milliseconds:
        return Verdict(
            Standing.BREACHED, observed, f"a record has waited for {observation.lag_ms} ms; wanted {wanted}"
        )
    if observed is not None and observed > objective.milliseconds:
        sentence = f"p{objective.percentile:g} is {observed:.0f} ms; wanted {wanted}"
        return Verdict(Standing.BREACHED, observed, sentence)
    if observed is None:
        return Verdict(Standing.WITHIN, None, f"nothing was late, nothing arrived; wanted {wanted}")
    return Verdict(
        Standing.WITHIN, observed, f"p{objective.percentile:g} is {observed:.0f} ms; wanted {wanted}"
    )
