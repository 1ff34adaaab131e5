"""The application behind a real socket."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest
import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from structlog.testing import LogCapture

from api.access.listener_settings import LimitSettings
from api.http.event_streams import EventFeed
from api.http.slow_calls import SlowCalls
from headrace.console.client import RestClient
from headrace.console.event_stream import StreamMessage, follow
from headrace.process.connections import RESERVE, RESERVED
from headrace.process.rest import RestServer, unbound_listener
from mirror.errors import ConfigError, Unreachable
from mirror.loggers import set_threshold
from mirror.model.metrics import NO_EVENTS
from tests.fakes.node_store import Operation
from tests.fakes.site import Site, a_body
from tests.patience import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.long


@pytest.fixture
def server() -> Iterator[RestServer]:
    server = RestServer("127.0.0.1", 0)
    server.bind()
    yield server
    server.stop(PATIENCE_SECONDS)


def until_closed(connection: socket.socket) -> bytes:
    """Return the data received until the peer closes the connection."""
    answer = b""
    while data := connection.recv(65_536):
        answer += data
    return answer


def until_reset(connection: socket.socket) -> bytes:
    """Return the data received before the peer resets the connection."""
    answer = b""
    try:
        while data := connection.recv(1_048_576):
            answer += data
    except ConnectionResetError:
        pass
    return answer


def connected(server: RestServer) -> socket.socket:
    return socket.create_connection(
        ("127.0.0.1", int(server.address.rpartition(":")[2])), timeout=PATIENCE_SECONDS
    )


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
    with connected(server) as early:
        early.sendall(b"GET /v1/datastreams HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        server.start()
        answer = until_closed(early)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"[]")


def test_the_second_part_of_an_answer_waits_for_no_acknowledgement_of_the_first() -> None:
    options: list[int] = []

    async def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async def accept_one() -> None:
        with unbound_listener("127.0.0.1") as listener:
            listener.bind(("127.0.0.1", 0))
            async with await asyncio.start_server(note, sock=listener):
                reader, writer = await asyncio.open_connection(*listener.getsockname())
                await reader.read()
                writer.close()

    asyncio.run(asyncio.wait_for(accept_one(), PATIENCE_SECONDS))
    assert options == [1]


@pytest.mark.parametrize("path", ["/v1/datastreams", "/v1/none"])
def test_a_call_with_two_ends_is_the_last_of_its_connection(server: RestServer, path: str) -> None:
    """Otherwise a proxy and the server could disagree on where the next request starts."""
    server.attach(Site().app)
    server.start()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
    both = head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    smuggled = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(server) as connection:
        connection.sendall(both + smuggled)
        answer = until_closed(connection)
    assert answer.count(b"HTTP/1.1") == 1
    assert b"connection: close" in answer.lower()
    with connected(server) as connection:
        plain = head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        connection.sendall(plain + smuggled.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert until_closed(connection).count(b"HTTP/1.1") == 2


def test_connections_that_hold_on_end_and_the_others_are_answered() -> None:
    limits = LimitSettings(head_seconds=0.2, connections_of_one_address=2)
    server = RestServer("127.0.0.1", 0, limits=limits)
    server.bind()
    try:
        server.attach(Site().app)
        server.start()
        with connected(server) as silent, connected(server) as slow:
            slow.sendall(b"GET /v1/health HTTP/1.1\r\nX-A: ")
            with connected(server) as late:
                assert until_closed(silent).startswith(b"HTTP/1.1 503")
                for one in (slow, late):
                    assert until_closed(one).startswith(b"HTTP/1.1 408")
        url = f"http://{server.address}/v1/health"
        wait_until(lambda: httpx.get(url, timeout=PATIENCE_SECONDS).status_code == 200)
    finally:
        server.stop(PATIENCE_SECONDS)


@pytest.mark.parametrize("path", sorted(RESERVED))
def test_probes_are_answered_while_others_take_every_connection(path: str) -> None:
    limits = LimitSettings(connections=3, connections_of_one_address=3)
    server, site = RestServer("127.0.0.1", 0, limits=limits), Site()
    server.bind()
    url = f"http://{server.address}"
    headers = {"Accept": "text/event-stream"}
    try:
        site.tick()
        server.attach(site.app)
        server.start()
        with ExitStack() as stack:
            for _ in range(limits.connections):
                held = stack.enter_context(
                    httpx.stream("GET", f"{url}/v1/events", headers=headers, timeout=PATIENCE_SECONDS)
                )
                assert held.status_code == 200
            for _ in range(2 * RESERVE):
                stack.enter_context(connected(server))
            assert httpx.get(f"{url}{path}", timeout=PATIENCE_SECONDS).status_code == 200
            refused = httpx.get(f"{url}/v1/plan", timeout=PATIENCE_SECONDS)
            assert (refused.status_code, "Retry-After" in refused.headers) == (503, True)
    finally:
        server.stop(PATIENCE_SECONDS)


def test_a_caller_that_does_not_read_its_answer_is_ended() -> None:
    """Unread data is dropped: the response is far larger than the socket buffers of a connection."""
    size = 64 * 1024 * 1024

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(bytes(size))(scope, receive, send)

    server = RestServer("127.0.0.1", 0, limits=LimitSettings(answer_seconds=0.2))
    server.bind()
    try:
        server.attach(Site().app, large)
        server.start()
        with connected(server) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
            assert connection.recv(12) == b"HTTP/1.1 200"
            wait_until(lambda: not server.connections)
            assert len(until_reset(connection)) < size
    finally:
        server.stop(PATIENCE_SECONDS)


def test_what_is_logged_says_which_process_and_which_call_it_is_of(server: RestServer) -> None:
    set_threshold("info")
    capture, before = LogCapture(), structlog.get_config()
    server.attach(Site().app)
    try:
        structlog.configure(processors=[structlog.contextvars.merge_contextvars, capture])
        with structlog.contextvars.bound_contextvars(instance="one"):
            server.start()
        url = f"http://{server.address}/v1/datastreams/none"
        answer = httpx.get(url, headers={"X-Request-ID": "mine"}, timeout=PATIENCE_SECONDS)
    finally:
        structlog.configure(**before)
    assert (answer.status_code, answer.headers["x-request-id"]) == (404, "mine")
    assert [(one["instance"], one["request_id"]) for one in capture.entries] == [("one", "mine")]


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


def test_calls_that_ask_a_slow_server_starve_nobody(server: RestServer) -> None:
    site, go_on, waiting = Site(), threading.Event(), threading.Semaphore(0)
    site.create()

    def never_soon() -> None:
        waiting.release()
        assert go_on.wait(PATIENCE_SECONDS)

    site.before_progress = never_soon
    site.app.state.slow_calls = SlowCalls(wait_seconds=0.2)
    server.attach(site.app)
    server.start()
    url = f"http://{server.address}/v1/datastreams/orders/progress"
    with ThreadPoolExecutor(60) as crew:
        try:
            calls = [crew.submit(httpx.get, url, timeout=PATIENCE_SECONDS) for _ in range(60)]
            assert waiting.acquire(timeout=PATIENCE_SECONDS)
            wait_until(lambda: sum(one.done() for one in calls) == 59)
            refused = [one.result() for one in calls if one.done()]
            assert {one.status_code for one in refused} == {503}
            assert all(one.headers["retry-after"] for one in refused)
            for path in ("/v1/health", "/metrics", "/v1/datastreams", "/health"):
                answer = httpx.get(f"http://{server.address}{path}", timeout=PATIENCE_SECONDS)
                assert answer.status_code == 200
        finally:
            go_on.set()
        assert sum(one.result().status_code == 200 for one in calls) == 1
    assert httpx.get(url, timeout=PATIENCE_SECONDS).status_code == 200


def test_health_and_metrics_wait_for_no_call_that_asks_zookeeper(server: RestServer) -> None:
    site, go_on, waiting = Site(), threading.Event(), threading.Semaphore(0)
    site.tick()

    def stand_still(_: Operation) -> None:
        waiting.release()
        assert go_on.wait(PATIENCE_SECONDS)

    server.attach(site.app)
    server.start()
    site.session.script = stand_still
    with ThreadPoolExecutor(60) as crew:
        try:
            url = f"http://{server.address}/v1/instances"
            calls = [crew.submit(httpx.get, url, timeout=PATIENCE_SECONDS) for _ in range(60)]
            for _ in range(2):
                assert waiting.acquire(timeout=PATIENCE_SECONDS)
            for path in ("/v1/health", "/metrics", "/health"):
                answer = httpx.get(f"http://{server.address}{path}", timeout=PATIENCE_SECONDS)
                assert answer.status_code == 200
        finally:
            site.session.script = lambda _: None
            go_on.set()
        assert {one.result().status_code for one in calls} == {200}


@pytest.mark.parametrize("path", ["/v1/instances", "/datastream"])
def test_a_call_that_the_stop_cuts_off_may_be_asked_again(server: RestServer, path: str) -> None:
    site, go_on, waiting = Site(), threading.Event(), threading.Semaphore(0)
    site.tick()

    def stand_still(_: Operation) -> None:
        waiting.release()
        assert go_on.wait(PATIENCE_SECONDS)

    server.attach(site.app)
    server.start()
    site.session.script = stand_still
    with ThreadPoolExecutor(1) as crew:
        try:
            call = crew.submit(httpx.get, f"http://{server.address}{path}", timeout=PATIENCE_SECONDS)
            assert waiting.acquire(timeout=PATIENCE_SECONDS)
            server.stop(PATIENCE_SECONDS)
            answer = call.result()
        finally:
            site.session.script = lambda _: None
            go_on.set()
        assert answer.status_code == 503
        if path.startswith("/v1"):
            assert answer.json()["kind"] == "Unreachable"


def test_streams_of_events_are_sent_as_they_happen_and_end_when_the_server_stops(server: RestServer) -> None:
    site = Site()
    server.attach(site.app)
    server.start()
    url, headers = (
        f"http://{server.address}/v1/events",
        {"Accept": "text/event-stream", "Last-Event-ID": "0-0"},
    )
    with httpx.stream("GET", url, headers=headers, timeout=PATIENCE_SECONDS) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (
            200,
            "text/event-stream; charset=utf-8",
        )
        lines = answer.iter_lines()
        site.create()
        told = (json.loads(line[6:]) for line in lines if line.startswith("data: "))
        created, planned = next(told), next(told)
        assert (created["kind"], created["datastream"]) == ("command", "orders")
        assert (planned["kind"], "2 partitions" in planned["sentence"]) == ("plan", True)
        server.stop(PATIENCE_SECONDS)
        list(lines)  # until the end: the stream is not cut off


def test_the_command_line_follows_a_stream_and_hears_of_its_end(server: RestServer) -> None:
    site, told, noted = Site(), list[StreamMessage](), list[str]()
    server.attach(site.app)
    server.start()

    def ended(_: float) -> None:
        raise StopIteration

    client = RestClient(server.address, PATIENCE_SECONDS)
    with ThreadPoolExecutor(1) as crew:
        call = crew.submit(follow, client, "0-0", "", told.append, noted.append, ended)
        site.create()
        wait_until(lambda: told)
        server.stop(PATIENCE_SECONDS)
        with pytest.raises(StopIteration):
            call.result(PATIENCE_SECONDS)
    client.close()
    assert told[0].event is not None
    assert told[0].identity == f"{site.leader.events.history(NO_EVENTS, lambda: None).first + 1}-0"
    assert "stream; retrying in" in noted[0]


def test_a_listener_that_goes_leaves_its_place(server: RestServer) -> None:
    site = Site()
    site.app.state.event_feed = feed = EventFeed(site.leader.events.history, most_listeners=1)
    server.attach(site.app)
    server.start()
    url, headers = f"http://{server.address}/v1/events", {"Accept": "text/event-stream"}
    with httpx.stream("GET", url, headers=headers, timeout=PATIENCE_SECONDS) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "id: 0-0"
        with httpx.stream("GET", url, headers=headers, timeout=PATIENCE_SECONDS) as refused:
            assert refused.status_code == 503
            assert refused.headers["retry-after"]
        del lines  # keeps the connection open
    wait_until(lambda: feed._listeners.count == 0)
