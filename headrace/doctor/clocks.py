"""What is to be said of the clocks of clusters, as the instances of the service have measured them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from headrace.doctor.diagnosis import Diagnosis, Grade
from mirror.model.movement.clock_skew import ClockSkew

_MOST_MS: Final = 1_000.0
"""By which clocks may differ: ages of records are wrong by as much."""


def examined_clocks(instances: Sequence[Mapping[str, Any]]) -> Iterator[Diagnosis]:
    """Of each cluster the instance whose clock differs most, as of `GET /v1/instances`. Nothing of a cluster
    that no instance has measured, such as one that none writes to."""
    found: dict[str, tuple[ClockSkew, str]] = {}
    for instance in instances:
        for cluster, one in ((instance["health"] or {}).get("clocks") or {}).items():
            skew = ClockSkew(one["ahead_seconds"] * 1000, one["bound_seconds"] * 1000)
            known = found.get(cluster)
            if known is None or skew.least_ms > known[0].least_ms:
                found[cluster] = skew, instance["name"]
    for cluster, (skew, name) in sorted(found.items()):
        subject = f"cluster {cluster}"
        side = "ahead of" if skew.ahead_ms > 0 else "behind"
        by = f"{abs(skew.ahead_ms) / 1000:.3f} s, to {skew.bound_ms / 1000:.3f} s"
        if skew.least_ms > _MOST_MS:
            yield Diagnosis(
                subject,
                Grade.WARNING,
                f"the clock of a broker is {side} that of instance {name}: {by}",
                "keep both in time (NTP): ages of records, and what retention deletes, follow these clocks",
            )
        else:
            yield Diagnosis(subject, Grade.OK, f"its clocks and ours agree: {by}")
