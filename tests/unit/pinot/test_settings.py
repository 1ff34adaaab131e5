"""Contradictory settings of Pinot are refused, and values of named queries are checked."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from mirror.errors import InvalidRequest
from pinot.catalogue import ask
from pinot.settings import PinotSettings
from pinot.time_range import TimeRange


@pytest.mark.parametrize(
    ("days", "says"),
    [
        ({"partitionMetric": 9}, "unknown table partitionMetric.*partitionMetrics"),
        ({"partitionMetrics": 0}, "greater than or equal to 1"),
        ({"partitionMetrics": -3}, "greater than or equal to 1"),
    ],
)
def test_a_retention_of_no_table_and_of_no_days_is_refused(days: dict[str, int], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        PinotSettings(retention_days=days)
    assert PinotSettings(retention_days={"partitionMetrics": 9}).retention_days == {"partitionMetrics": 9}


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        ("placement-events", {"limit": "-1"}),
        ("placement-events", {"limit": "1_0"}),
        ("placement-events", {"limit": "9" * 19}),
        ("lag", {"least_ms": "1.5"}),
        ("offending", {"cluster": "c", "usable_bytes_per_second": "0"}),
        ("offending", {"cluster": "c", "usable_bytes_per_second": "inf"}),
        ("offending", {"cluster": "c", "usable_bytes_per_second": "nan"}),
        ("offending", {"cluster": "c", "usable_bytes_per_second": "much"}),
    ],
)
def test_a_number_that_no_query_can_use_is_the_callers_error(query: str, parameters: dict[str, str]) -> None:
    no_client: Any = None
    with pytest.raises(InvalidRequest, match="must be"):
        ask(no_client, query, TimeRange(0, 1), parameters)


@pytest.mark.parametrize("key", ["controller", "broker"])
@pytest.mark.parametrize("port", [0, 65_536, 99_999])
def test_a_port_that_does_not_exist_is_refused(key: str, port: int) -> None:
    with pytest.raises(ValidationError, match=f"invalid port {port}"):
        PinotSettings.model_validate({key: f"pinot:{port}"})
    PinotSettings.model_validate({key: "pinot:65535"})
