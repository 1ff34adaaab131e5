"""Diagnosis of cluster clocks, as measured by the instances of the service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from headrace.doctor.diagnosis import DoctorFinding, Grade
from mirror.model.movement.clock_skew import ClockSkew

_MOST_MS: Final = 1_000.0
"""Tolerated clock difference. If clocks differ, ages of records are wrong by the same amount."""


def examined_clocks(instances: Sequence[Mapping[str, Any]]) -> Iterator[DoctorFinding]:
    """Evaluate the clock skew of each cluster, as measured by the instance with the largest skew.
    `instances`: response of `GET /v1/instances`. Clusters without a measurement, such as those that no
    instance writes to, are skipped."""
    found: dict[str, tuple[ClockSkew, str]] = {}
    for instance in instances:
        for cluster, clock in ((instance["health"] or {}).get("clocks") or {}).items():
            skew = ClockSkew(clock["ahead_seconds"] * 1000, clock["bound_seconds"] * 1000)
            known = found.get(cluster)
            if known is None or skew.least_ms > known[0].least_ms:
                found[cluster] = skew, instance["name"]
    for cluster, (skew, name) in sorted(found.items()):
        subject = f"cluster {cluster}"
        side = "ahead of" if skew.ahead_ms > 0 else "behind"
        by = f"{abs(skew.ahead_ms) / 1000:.3f} s, to {skew.bound_ms / 1000:.3f} s"
        if skew.least_ms > _MOST_MS:
            yield DoctorFinding(
                subject,
                Grade.WARNING,
                f"a broker's clock is {side} that of instance {name}: {by}",
                "synchronize both with NTP: record ages and retention depend on these clocks",
            )
        else:
            yield DoctorFinding(subject, Grade.OK, f"clocks are in sync with ours: {by}")
