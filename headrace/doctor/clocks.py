"""Checks the clocks of clusters, from measurements by the instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.console.resources import worst_skews
from headrace.doctor.diagnosis import DoctorFinding, Grade


def examined_clocks(instances: Sequence[Mapping[str, Any]]) -> Iterator[DoctorFinding]:
    """Evaluate the clock skew of each cluster: the largest skew that any instance has measured. `instances`:
    response of `GET /v1/instances`. Clusters without a measurement, such as clusters to which no instance
    writes, are skipped."""
    for cluster, skew in worst_skews(instances).items():
        subject = f"cluster {cluster}"
        if skew.is_tolerable:
            yield DoctorFinding(subject, Grade.OK, f"clocks are in sync with ours: {skew.amount}")
        else:
            yield DoctorFinding(
                subject,
                Grade.WARNING,
                skew.sentence,
                "synchronize both with NTP: record ages and retention depend on these clocks",
            )
