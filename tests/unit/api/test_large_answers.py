"""Test that large responses are serialized in a thread, in pieces, to the document that FastAPI returns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import TypeAdapter
from starlette.responses import Response

from api.http.problems import LegibleJson, json_text
from api.http.slow_calls import json_of, large_response
from api.resources.lanes import LaneAnswer, LanesAnswer, MovementAnswer
from api.resources.status import InstanceStateAnswer
from tests.fakes.site import Site

LARGE = [
    "/v1/lanes",
    "/v1/plan",
    "/v1/plan?datastream=orders",
    "/v1/movement",
    "/v1/audits",
    "/v1/overview",
    "/v1/datastreams",
    "/v1/datastreams/orders/lag",
    "/v1/datastreams/orders/gaps",
    "/v1/datastreams/orders/loads",
    "/v1/datastreams/orders/progress",
]


def a_lane(number: int) -> LaneAnswer:
    movement = MovementAnswer(
        state="OK", reason="", since_ms=1, eta_seconds=0.5, seconds_to_loss=None, loses_data=False
    )
    return LaneAnswer(
        instance="one",
        datastream="orders",
        partition=f"überschrift-{number}",
        task="orders-0",
        worker=0,
        phase="copying",
        reason="\ud800",
        lag_records=number,
        lag_ms=None,
        bytes_per_second=1.5,
        per_second={"records": 0.25},
        movement=movement,
    )


def lanes(count: int) -> LanesAnswer:
    return LanesAnswer(
        instances=[InstanceStateAnswer(name="one", state="answered", reason="")],
        lanes=[a_lane(number) for number in range(count)],
    )


@pytest.mark.parametrize("count", [0, 1, 50])
def test_the_document_is_that_of_the_framework(count: int) -> None:
    answers: Sequence[tuple[Any, Any]] = [(LanesAnswer, lanes(count)), (list[LaneAnswer], lanes(count).lanes)]
    for kind, answer in answers:
        expected = TypeAdapter(kind).dump_python(answer, mode="json", by_alias=True)
        assert json_of(answer) == LegibleJson(expected).body


def test_headers_and_status_are_kept() -> None:
    response = Response(status_code=202, headers={"Age": "7"})
    del response.headers["Content-Length"]  # the framework passes responses without it
    found = large_response(lanes(1), response)
    assert (found.status_code, found.headers["Age"]) == (202, "7")
    assert found.headers["Content-Type"] == "application/json"
    assert found.headers["Content-Length"] == str(len(found.body))


def test_no_piece_grows_with_the_number_of_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[int] = []

    def noted(content: Any) -> bytes:
        found = json_text(content)
        pieces.append(len(found))
        return found

    monkeypatch.setattr("api.http.slow_calls.json_text", noted)
    few = max(pieces) if json_of(lanes(2)) else 0
    json_of(lanes(99))
    assert max(pieces) <= few + 10


@pytest.mark.parametrize("path", LARGE)
def test_large_responses_are_not_serialized_on_the_event_loop(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site()
    site.create("orders")
    site.tick()
    on_loop: list[str] = []
    render = LegibleJson.render

    def noted(self: LegibleJson, content: Any) -> bytes:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            on_loop.append(str(content)[:200])
        return render(self, content)

    monkeypatch.setattr(LegibleJson, "render", noted)
    answer = site.client.get(path)
    assert answer.status_code == 200
    assert answer.json() is not None
    assert on_loop == []
