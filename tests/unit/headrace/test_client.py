"""Test the REST client of the commands: it raises the error that the service raised."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator

import httpx
import pytest

from api.http.problems import problem, status_of
from headrace.console.client import RestClient
from headrace.console.resources import path_of
from headrace.console.settings import ClientSettings
from mirror.errors import (
    AlreadyExists,
    HeadraceError,
    InvalidRequest,
    NotFound,
    ServiceAnswerTooLarge,
    StaleVersion,
    Unreachable,
)
from tests.fakes.in_process import InProcess
from tests.fakes.site import Site, a_body


def client_over(transport: httpx.BaseTransport, settings: ClientSettings | None = None) -> RestClient:
    client = RestClient("test", settings=settings)
    client.close()
    client._client = httpx.Client(transport=transport, base_url="http://test")
    return client


def answering(response: httpx.Response) -> RestClient:
    return client_over(httpx.MockTransport(lambda _: response))


def family(kind: type[HeadraceError]) -> Iterator[type[HeadraceError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == "mirror.errors":
            yield from family(child)


@pytest.mark.parametrize("kind", sorted(family(HeadraceError), key=str))
def test_an_error_arrives_as_it_was_raised(kind: type[HeadraceError]) -> None:
    error = kind("what happened", advice="what to do")
    with pytest.raises(HeadraceError) as raised:
        answering(httpx.Response(status_of(error), json=problem(error, "a-call"))).get("/v1/plan")
    assert type(raised.value) is kind
    assert (raised.value.message, raised.value.advice) == ("what happened", "what to do")


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (httpx.Response(400, json={"detail": "x", "kind": "Unheard"}), InvalidRequest),
        (httpx.Response(500, json={"detail": "x"}), HeadraceError),
        (httpx.Response(400, json={"detail": "x", "kind": "annotations"}), InvalidRequest),
        (httpx.Response(503, text="<html>busy</html>"), Unreachable),
        (httpx.Response(503, json={"is_well": False}), Unreachable),
        (httpx.Response(500, text="oops"), HeadraceError),
        (httpx.Response(500, json=["odd"]), HeadraceError),
        (httpx.Response(302, text=""), HeadraceError),
    ],
)
def test_other_answers_are_errors_too(response: httpx.Response, kind: type[HeadraceError]) -> None:
    with pytest.raises(HeadraceError) as raised:
        answering(response).get("/v1/plan")
    assert type(raised.value) is kind


def test_nobody_there_is_unreachable_with_what_to_do() -> None:
    client = RestClient("127.0.0.1:1", timeout_seconds=5)
    with pytest.raises(Unreachable, match="headrace serve"):
        client.get("/v1/plan")
    client.close()


def test_text_that_cannot_be_sent_is_said_to_be_so() -> None:
    client = client_over(InProcess(Site().app))
    with pytest.raises(InvalidRequest, match="UTF-8"):
        client.post("/v1/datastreams", a_body("\udcff"))
    with pytest.raises(NotFound):
        client.get(path_of("\udcff"))


def test_a_creation_without_an_answer_is_sent_again_and_is_one() -> None:
    site, unreported = Site(), [True]

    def lose_the_first_answer(request: httpx.Request) -> httpx.Response:
        answer = InProcess(site.app).handle_request(request)
        if unreported:
            unreported.pop()
            raise httpx.ReadTimeout("too late")
        return answer

    client = client_over(httpx.MockTransport(lose_the_first_answer))
    assert client.create("/v1/datastreams", a_body())["name"] == "orders"
    assert [one["name"] for one in client.get("/v1/datastreams")] == ["orders"]
    with pytest.raises(AlreadyExists):
        client.create("/v1/datastreams", a_body())


def test_it_speaks_with_the_real_application() -> None:
    site = Site()
    client = client_over(InProcess(site.app))
    client.post("/v1/datastreams", a_body("a?b#c/d".replace("/", "%")))
    assert client.get(path_of("a?b#c%d"))["name"] == "a?b#c%d"
    assert client.delete(path_of("a?b#c%d"))["status"] == "DELETING"
    assert [event["kind"] for event in client.get("/v1/events", limit=5)] == ["command", "command"]
    with pytest.raises(NotFound):
        client.get(path_of("a"))


def test_a_change_names_the_version_that_was_read() -> None:
    site = Site()
    site.create()
    client, path = client_over(InProcess(site.app)), path_of("orders")
    version = client.version(path)
    assert client.patch(path, {"limits": {"max_tasks": 3}}, version)["limits"]["max_tasks"] == 3
    with pytest.raises(StaleVersion):
        client.patch(path, {"limits": {"max_tasks": 4}}, version)
    plan = client.patch(path, {"limits": {"max_tasks": 4}}, client.version(path), dry_run=True)
    assert plan["changes"] == [{"field": "/limits/max_tasks", "before": 3, "after": 4}]


def test_an_answer_that_is_not_as_of_now_is_noted_with_its_age() -> None:
    ages: list[int] = []
    client = RestClient("test", note_age=ages.append)
    client.close()
    site = Site()
    client._client = httpx.Client(transport=InProcess(site.app), base_url="http://test")
    site.create()
    assert client.get("/v1/datastreams")
    assert ages == []
    site.session.disconnect()
    site.clock.advance(12.3)
    assert client.get("/v1/datastreams")
    assert ages == [12]


class Endless(httpx.SyncByteStream):
    """An endless body. `sent`: parts read so far."""

    def __init__(self) -> None:
        self.sent = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.sent += 1
            yield b"x" * 1000


def follow(client: RestClient) -> None:
    with client.stream("/v1/events", {"Accept": "text/event-stream"}) as chunks:
        list(chunks)


@pytest.mark.parametrize(
    ("status", "ask"),
    [
        (200, lambda client: client.get("/v1/plan")),
        (500, lambda client: client.get("/v1/plan")),
        (200, lambda client: client.begin("DELETE", "/v1/plan")),
        (500, follow),
    ],
)
def test_no_more_of_an_answer_is_read_than_is_allowed(
    status: int, ask: Callable[[RestClient], object]
) -> None:
    body = Endless()
    transport = httpx.MockTransport(lambda _: httpx.Response(status, stream=body))
    client = client_over(transport, ClientSettings(largest_answer_bytes=10_000))
    with pytest.raises(ServiceAnswerTooLarge):
        ask(client)
    assert body.sent == 11


def test_a_compressed_answer_is_not_opened() -> None:
    packed = {"Content-Encoding": "gzip"}
    body = gzip.compress(b" " * 10_000_000 + b"{}")
    with pytest.raises(HeadraceError):
        answering(httpx.Response(200, headers=packed, stream=httpx.ByteStream(body))).get("/v1/plan")
