"""Table of all endpoints, with the action that a caller must be permitted to perform.

Endpoints that are not in the table reject every request. The owner of a datastream is checked when the
datastream is read for a change (`mirror.control.caller`). `tests/unit/api/test_access_table.py` compares this
table with the endpoints of the application.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api.access.rights import Action

SIGNED: Final = None
"""Marks endpoints for requests that another instance signs. The endpoint verifies the signature
(`api.fleet.questions`)."""

SCHEME: Final = "Headrace"
"""Scheme of the Authorization header for requests between instances."""
FLEET_PATH: Final = "/v1/fleet/"
PAGES_PATH: Final = "/ui/"
_DATASTREAM: Final = "/v1/datastreams/{name}"
_LOST: Final = "/v1/lost-datastreams/{name}"
_BROOKLINS: Final = "/datastream/{name:path}"

NEEDS: Final[Mapping[tuple[str, str], Action | None]] = {
    ("GET", "/v1/health"): Action.HEALTH,
    ("GET", "/v1/ready"): Action.HEALTH,
    ("GET", "/health"): Action.HEALTH,
    ("GET", "/metrics"): Action.METRICS,
    ("GET", "/"): Action.PAGES,
    ("GET", "/ui"): Action.PAGES,
    ("GET", f"{PAGES_PATH}{{path:path}}"): Action.PAGES,
    ("GET", "/v1/fleet/{subject}"): SIGNED,
    ("POST", "/v1/fleet/{subject}"): SIGNED,
    **{
        ("GET", path): Action.READ
        for path in (
            "/v1/datastreams",
            _DATASTREAM,
            f"{_DATASTREAM}/gaps",
            f"{_DATASTREAM}/lag",
            f"{_DATASTREAM}/latency/history",
            f"{_DATASTREAM}/loads",
            f"{_DATASTREAM}/loads/history",
            f"{_DATASTREAM}/progress",
            f"{_DATASTREAM}/translation",
            f"{_DATASTREAM}/translation/groups/{{group:path}}",
            f"{_DATASTREAM}/consumer-groups",
            f"{_DATASTREAM}/consumer-groups/{{group:path}}",
            "/v1/docs",
            "/v1/dr",
            "/v1/events",
            "/v1/groups/{prefix}",
            "/v1/incidents",
            "/v1/instances",
            "/v1/advice",
            "/v1/lanes",
            "/v1/lost-datastreams",
            _LOST,
            "/v1/monitor",
            "/v1/loads",
            "/v1/audits",
            "/v1/movement",
            "/v1/openapi.json",
            "/v1/operations",
            "/v1/operations/{operation}",
            "/v1/plan",
            "/v1/plans/{identity}",
            "/datastream",
            _BROOKLINS,
            "/diag",
            "/v1/caller",
            "/v1/overview",
            "/v1/retirements",
            "/v1/topics",
            "/v1/usage",
        )
    },
    **{
        ("POST", path): Action.CHANGE
        for path in (
            "/v1/datastreams",
            f"{_DATASTREAM}/move",
            f"{_DATASTREAM}/pause",
            f"{_DATASTREAM}/pause-partitions",
            f"{_DATASTREAM}/plan",
            f"{_DATASTREAM}/restart-from",
            f"{_DATASTREAM}/resume",
            f"{_DATASTREAM}/resume-partitions",
            f"{_DATASTREAM}/stop",
            "/v1/groups/{prefix}/pause",
            "/v1/groups/{prefix}/resume",
            f"{_LOST}/restore",
            "/v1/plans/{identity}/apply",
            "/v1/rebalance",
            "/v1/retirements",
            "/v1/retirements/restore",
            "/datastream",
            _BROOKLINS,
        )
    },
    ("DELETE", _DATASTREAM): Action.CHANGE,
    ("DELETE", _LOST): Action.CHANGE,
    ("PATCH", _DATASTREAM): Action.CHANGE,
    ("PUT", _DATASTREAM): Action.CHANGE,
    ("PATCH", "/v1/monitor"): Action.CHANGE,
    ("PUT", "/v1/monitor/lease"): Action.CHANGE,
    ("DELETE", "/v1/monitor/lease"): Action.CHANGE,
    ("DELETE", _BROOKLINS): Action.CHANGE,
    ("PUT", _BROOKLINS): Action.CHANGE,
    ("PUT", "/datastream"): Action.CHANGE,
}
