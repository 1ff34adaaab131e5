"""The table of audited windows: of the rows of an id the newest counts, and windows add up."""

from __future__ import annotations

import pytest

from mirror.model.audit_window import AuditWindow
from pinot.tables import AUDIT_WINDOWS
from tests.metrics_data import MetricsWorld, fresh_name
from tests.patience import wait_until

pytestmark = pytest.mark.servers

WINDOW_MS = 600_000
START_MS = 1_795_000_000_000 // WINDOW_MS * WINDOW_MS


def a_window(name: str, partition: int, count: int, at_ms: int, tier: str = "mirror") -> AuditWindow:
    return AuditWindow(
        START_MS + at_ms,
        f"{name}/{partition}/{tier}",
        name if tier == "mirror" else "",
        name,
        partition,
        tier,
        "one",
        "headrace",
        START_MS,
        START_MS + WINDOW_MS,
        "full",
        "complete",
        count,
        *(1, 0, 0, 0, 0),
        *(0, count, 0, count),
        "[]",
        100 * count,
        0,
    )


def test_windows_add_up_whatever_the_order_of_their_rows(metrics_world: MetricsWorld) -> None:
    name = fresh_name("windows")
    rows = [
        a_window(name, 0, 3, 1),
        a_window(name, 0, 7, 3),
        a_window(name, 0, 5, 2),  # delayed
        a_window(name, 1, 2, 1),
        a_window(name, -1, 9, 1, tier="producer"),
    ]
    metrics_world.put(AUDIT_WINDOWS, rows, distinct=3)
    query = (
        "select tier, sum(count), sum(missing), sum(payload_bytes) from auditWindows"
        f" where topic = '{name}' and bucket_start_ms = {START_MS} group by tier order by tier limit 10"
    )
    expected = [["mirror", 9, 2, 900], ["producer", 9, 1, 900]]

    def found() -> bool:
        return [list(row) for row in metrics_world.client.ask(query).rows] == expected

    wait_until(found, "the newest rows count")
