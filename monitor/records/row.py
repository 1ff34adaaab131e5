"""An incident as a row of Pinot's table `incidents`. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict

from monitor.records.record import IncidentRecord
from pinot.tables import IncidentRow


def row_of_incident(record: IncidentRecord) -> IncidentRow:
    """Return the row of an incident in its current state."""
    times = [record.judged_ms, record.opened_ms, *(entry.time_ms for entry in record.timeline[-1:])]
    spent = [cost.spent for cost in record.costs if cost.spent is not None]
    worst = max(record.deliveries or (), key=lambda delivery: delivery.late, default=None)
    return IncidentRow(
        changed_ms=max(times),
        id=record.id,
        datastream=record.datastream,
        cluster=record.cluster,
        opened_ms=record.opened_ms,
        closed_ms=record.closed_ms,
        worst_ms=record.worst_ms,
        is_late=int(record.is_late),
        matters=",".join(record.matters),
        cause=record.cause,
        evidence=json.dumps(dict(record.evidence)),
        bad_seconds=record.bad_seconds,
        unknown_seconds=record.unknown_seconds,
        budget_spent=max(spent, default=None),
        timeline=json.dumps([asdict(entry) for entry in record.timeline]),
        records_delivered=None if worst is None else worst.records,
        records_late=None if worst is None else worst.late,
    )
