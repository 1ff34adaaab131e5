"""Test request ids: every call has one, in its response and in its log lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import structlog
from httpx import Client
from structlog.testing import LogCapture

from mirror.loggers import set_threshold
from tests.fakes.node_store import Operation
from tests.fakes.site import Site, a_body

NEW = re.compile(r"[0-9a-f]{16}")


@pytest.fixture
def log() -> Iterator[LogCapture]:
    """Capture log lines with their context."""
    set_threshold("info")
    capture = LogCapture()
    before = structlog.get_config()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, capture])
    yield capture
    structlog.configure(**before)


@pytest.mark.parametrize(
    "path", ["/v1/datastreams", "/v1/datastreams/none", "/nothing", "/health", "/metrics"]
)
def test_every_answer_has_the_callers_name_for_it(client: Client, path: str) -> None:
    assert client.get(path, headers={"X-Request-ID": "a.b:C-1_2"}).headers["x-request-id"] == "a.b:C-1_2"


@pytest.mark.parametrize("asked", ["", "x" * 65, "two words", "a\tb", "<script>", "ü", 'a"b'])
def test_a_name_that_cannot_be_repeated_is_replaced(client: Client, asked: str) -> None:
    answer = client.get("/v1/health", headers={b"X-Request-ID": asked.encode()})
    assert NEW.fullmatch(answer.headers["x-request-id"])


def test_calls_without_a_name_get_different_ones(client: Client) -> None:
    assert len({client.get("/v1/health").headers["x-request-id"] for _ in range(5)}) == 5


def test_a_refusal_and_what_is_logged_of_it_have_the_name(client: Client, log: LogCapture) -> None:
    answer = client.get("/v1/datastreams/none")
    (line,) = log.entries
    assert answer.json()["request_id"] == answer.headers["x-request-id"] == line["request_id"]
    assert (line["event"], line["status"], line["kind"]) == ("request refused", 404, "NotFound")
    assert line["asked"] == "GET '/v1/datastreams/none'"


def test_what_brooklins_clients_are_refused_is_logged_with_the_name(client: Client, log: LogCapture) -> None:
    answer = client.get("/datastream/none")
    (line,) = log.entries
    assert line["request_id"] == answer.headers["x-request-id"]
    assert f"id={line['id']};" in answer.json()["message"]


def test_bodies_that_nothing_reads_and_bugs_are_named_too(
    site: Site, client: Client, log: LogCapture
) -> None:
    refused = client.post("/v1/datastreams", content=b"{", headers={"X-Request-ID": "half"})
    assert (refused.status_code, refused.json()["request_id"]) == (400, "half")

    def fail(_: Operation) -> None:
        raise ZeroDivisionError

    site.session.script = fail
    failed = client.get("/v1/plan", headers={"X-Request-ID": "bug"})
    assert (failed.status_code, failed.headers["x-request-id"]) == (500, "bug")
    assert failed.json()["request_id"] == "bug"
    assert [line["request_id"] for line in log.entries] == ["half", "bug"]


def test_the_name_of_a_call_is_not_that_of_the_next(site: Site, client: Client, log: LogCapture) -> None:
    for name in ("first", "second"):
        client.post("/v1/datastreams", json={**a_body(), "name": ""}, headers={"X-Request-ID": name})
    assert [line["request_id"] for line in log.entries] == ["first", "second"]
