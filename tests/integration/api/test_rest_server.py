"""The application behind a real socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import httpx
import pytest

from headrace.client import RestClient
from headrace.rest import RestServer
from mirror.errors import ConfigError, Unreachable
from tests.fakes.site import Site, a_body
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def server() -> Iterator[RestServer]:
    server = RestServer("127.0.0.1", 0)
    server.bind()
    yield server
    server.stop(PATIENCE_SECONDS)


def test_it_answers_from_the_moment_that_it_is_started_until_it_is_stopped(server: RestServer) -> None:
    server.attach(Site().app)
    server.start()
    address = server.address
    client = RestClient(address, timeout_seconds=PATIENCE_SECONDS)
    client.post("/v1/datastreams", a_body())
    assert client.get("/v1/datastreams/orders")["name"] == "orders"
    client.close()
    server.stop(PATIENCE_SECONDS)
    server.stop(PATIENCE_SECONDS)
    with pytest.raises(Unreachable):
        RestClient(address, timeout_seconds=5).get("/v1/datastreams")
    assert not [one.name for one in threading.enumerate() if one.name == "rest"]


def test_who_comes_before_it_is_started_waits_for_the_answer(server: RestServer) -> None:
    server.attach(Site().app)
    with socket.create_connection(
        ("127.0.0.1", int(server.address.rpartition(":")[2])), timeout=PATIENCE_SECONDS
    ) as early:
        early.sendall(b"GET /v1/datastreams HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        server.start()
        answer = b""
        while data := early.recv(65_536):
            answer += data
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"[]")


def test_a_busy_port_is_found_at_once_also_before_the_other_serves(server: RestServer) -> None:
    host, _, port = server.address.rpartition(":")
    with pytest.raises(ConfigError, match=f"{host}:{port}"):
        RestServer(host, int(port)).bind()


def test_requests_are_answered_side_by_side(server: RestServer) -> None:
    site = Site()
    server.attach(site.app)
    server.start()
    answers: list[int] = []

    def ask() -> None:
        with httpx.Client(base_url=f"http://{server.address}", timeout=PATIENCE_SECONDS) as client:
            answers.extend(client.get("/v1/health").status_code for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 50
