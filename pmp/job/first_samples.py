"""Explains why a cluster has no samples yet, with advice for the operator. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pmp.job.job_metrics import offsets
from pmp.settings import SampledCluster


class FirstSamplesWait(NamedTuple):
    """Reason why the Spark job does not read a cluster yet.

    `problem`: the missing topics or samples; `advice`: how to create them.
    """

    problem: str
    advice: str


def awaited(progress: Mapping[str, Any], name: str, sampled: SampledCluster) -> FirstSamplesWait | None:
    """Explain why the Spark job does not read the cluster yet; None if it does.

    The progress report of Spark shows whether the sample topics or the first sample are missing. None means
    that the topics have samples, or had samples that have expired.
    """
    known: dict[tuple[str, str], int] = {}
    for source in progress.get("sources", ()):
        known |= offsets(source.get("endOffset")) | offsets(source.get("latestOffset"))
    if any(offset > 0 for offset in known.values()):
        return None
    topics = sorted({topic for topic, _ in known})
    if topics:
        return FirstSamplesWait(f"no samples in {' or '.join(topics)} yet", _advice(name, sampled))
    wanted = f"{sampled.samples_topic} or {sampled.execution_topic}"
    return FirstSamplesWait(f"the cluster has no topic {wanted}", _advice(name, sampled))


def _advice(name: str, sampled: SampledCluster) -> str:
    if sampled.sampled_by == "sampler":
        return f"run headrace pmp sampler --cluster {name}"
    return (
        f"check that pmp.clusters.{name}.samples_topic names the topic that Cruise Control writes to; "
        f"without Cruise Control, run headrace pmp sampler --cluster {name}"
    )
