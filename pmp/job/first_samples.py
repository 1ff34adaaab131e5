"""What a cluster's query waits for before it has read anything, and what a person can do about it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pmp.job.metrics import offsets
from pmp.settings import SampledCluster


class Wait(NamedTuple):
    """`problem`: what is missing; `advice`: what brings it."""

    problem: str
    advice: str


def awaited(progress: Mapping[str, Any], name: str, sampled: SampledCluster) -> Wait | None:
    """By a progress report of Spark: the topics of samples, or the first sample. None where samples are
    there, or have been."""
    known: dict[tuple[str, str], int] = {}
    for source in progress.get("sources", ()):
        known |= offsets(source.get("endOffset")) | offsets(source.get("latestOffset"))
    if any(offset > 0 for offset in known.values()):
        return None
    topics = sorted({topic for topic, _ in known})
    if topics:
        return Wait(f"no sample was written to {' or '.join(topics)} yet", _advice(name, sampled))
    wanted = f"{sampled.samples_topic} or {sampled.execution_topic}"
    return Wait(f"it has no topic {wanted}", _advice(name, sampled))


def _advice(name: str, sampled: SampledCluster) -> str:
    if sampled.sampled_by == "sampler":
        return f"headrace pmp sampler --cluster {name} writes them"
    return (
        f"Cruise Control writes them; does pmp.clusters.{name}.samples_topic name its topic? "
        f"Where there is no Cruise Control, headrace pmp sampler --cluster {name} writes them"
    )
