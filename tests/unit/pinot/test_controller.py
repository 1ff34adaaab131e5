"""Any response in place of the controller's gives a result or a Headrace error."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest

from mirror.errors import AnalyticsError
from pinot.deployment.controller import PinotController
from pinot.deployment.ingestion import positions
from tests.fakes.pinot_wire import answering


def of_replica(**fields: Any) -> bytes:
    """Return the controller's answer about one consuming segment."""
    return json.dumps({"_segmentToConsumingInfoMap": {"t__0__0__1": [fields]}}).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>not here</html>",
        b"\xff\0",
        b"[" * 100_000,
        b"null",
        b"[]",
        b"{}",
        b'{"_segmentToConsumingInfoMap": null}',
        b'{"_segmentToConsumingInfoMap": {"s": 5}}',
        of_replica(),
        of_replica(consumerState="CONSUMING"),
        of_replica(consumerState="CONSUMING", partitionToOffsetMap={"0": None}),
        of_replica(consumerState="CONSUMING", partitionToOffsetMap={"0": "far"}),
    ],
    ids=lambda body: body[:60].decode("utf-8", "replace"),
)
def test_what_is_no_progress_of_pinot_is_said_to_be_none(body: bytes) -> None:
    with (
        answering(lambda _: body) as settings,
        closing(PinotController(settings)) as controller,
        pytest.raises(AnalyticsError, match="Pinot"),
    ):
        positions(controller, "t")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"7", b'"text"', b'{"REALTIME": 7}'])
def test_what_is_no_table_of_pinot_is_said_to_be_none(body: bytes) -> None:
    with (
        answering(lambda _: body) as settings,
        closing(PinotController(settings)) as controller,
        pytest.raises(AnalyticsError, match="Pinot"),
    ):
        controller.table("t")


def test_the_lowest_offset_of_the_replicas_counts() -> None:
    replicas = [
        {"consumerState": state, "partitionToOffsetMap": {"0": offset}}
        for state, offset in (("CONSUMING", "9"), ("CONSUMING", "7"), ("NOT_CONSUMING", "1"))
    ]
    body = json.dumps({"_segmentToConsumingInfoMap": {"t__0__0__1": replicas}}).encode()
    with answering(lambda _: body) as settings, closing(PinotController(settings)) as controller:
        assert positions(controller, "t") == {0: 7}
