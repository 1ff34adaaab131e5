"""Checks the clocks of clusters with the skew that instances have measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.console.resources import worst_skews
from headrace.doctor.diagnosis import DoctorFinding, Subject


def examined_clocks(instances: Sequence[Mapping[str, Any]]) -> Iterator[DoctorFinding]:
    """Report for each cluster the largest clock skew that any instance has measured. `instances`: response of
    `GET /v1/instances`. Clusters without a measurement, such as clusters to which no instance writes, are
    skipped."""
    for cluster, skew in worst_skews(instances).items():
        subject = Subject(f"cluster {cluster}")
        if skew.is_tolerable:
            yield subject.ok(f"clocks are in sync with ours: {skew.amount}")
        else:
            yield subject.warning(
                skew.sentence, "synchronize both with NTP: record ages and retention depend on these clocks"
            )
