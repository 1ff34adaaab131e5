"""Responses of a Pinot server are bounded in size, also after decompression, and in total time."""

from __future__ import annotations

import gzip
import json
import zlib
from contextlib import closing
from typing import Any, Final

import httpx
import pytest

from mirror.errors import AnswerTooLarge, TimedOut, Unreachable
from pinot.client import PinotClient
from pinot.deployment.controller import PinotController
from pinot.settings import PinotSettings
from pinot.transport import BoundedTransport
from stack.ports import LOOPBACK
from tests.fakes.alert_receivers import HttpReceiver, Reply, dripping
from tests.fakes.pinot_wire import answering

QUERY: Final = "select n from t limit 1"
GZIP: Final = {"Content-Encoding": "gzip"}
WHOLE: Final[dict[str, Any]] = {
    "resultTable": {"dataSchema": {"columnNames": ["n"], "columnDataTypes": ["LONG"]}, "rows": [[1]]},
    "exceptions": [],
    "numServersQueried": 1,
    "numServersResponded": 1,
}
MOST: Final = 1_000_000
HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"


def bounded(settings: PinotSettings) -> PinotSettings:
    return settings.model_copy(update={"largest_answer_bytes": MOST})


def bomb(mebibytes: int) -> bytes:
    """Return gzip data of spaces, compressed to a thousandth."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return b"".join([*(packer.compress(b" " * 1_048_576) for _ in range(mebibytes)), packer.flush()])


@pytest.mark.parametrize("headers", [{}, GZIP], ids=["plain", "gzip"])
def test_an_answer_of_a_legal_size_is_read(headers: dict[str, str]) -> None:
    body = json.dumps(WHOLE | {"comment": "x" * 300_000}).encode()
    body = gzip.compress(body) if headers else body
    with (
        answering(lambda _: body, headers=headers) as settings,
        closing(PinotClient(bounded(settings))) as client,
    ):
        assert client.ask(QUERY).rows == [[1]]


@pytest.mark.parametrize(
    ("body", "headers"), [(b" " * (MOST + 1), {}), (bomb(8), GZIP)], ids=["plain", "gzip"]
)
def test_a_larger_one_is_an_error_that_is_not_retried(body: bytes, headers: dict[str, str]) -> None:
    asked: list[str] = []

    def answer(sql: str) -> bytes:
        asked.append(sql)
        return body

    with (
        answering(answer, headers=headers) as settings,
        closing(PinotClient(bounded(settings))) as client,
        pytest.raises(AnswerTooLarge),
    ):
        client.ask(QUERY)
    assert len(asked) == 1


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "gzip, gzip"])
def test_a_compression_that_was_not_offered_is_not_opened(encoding: str) -> None:
    with (
        answering(lambda _: b"x", attempts=1, headers={"Content-Encoding": encoding}) as settings,
        closing(PinotClient(settings)) as client,
        pytest.raises(Unreachable),
    ):
        client.ask(QUERY)


@pytest.mark.parametrize(
    "body", [b"{}", gzip.compress(json.dumps(WHOLE).encode())[:-4]], ids=["none", "half"]
)
def test_broken_gzip_is_an_error(body: bytes) -> None:
    with (
        answering(lambda _: body, attempts=1, headers=GZIP) as settings,
        closing(PinotClient(settings)) as client,
        pytest.raises(Unreachable),
    ):
        client.ask(QUERY)


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\nX: ", HEAD], ids=["silent", "head", "body"])
def test_a_byte_now_and_then_does_not_extend_the_deadline(beginning: bytes) -> None:
    drop = b"x" if beginning else b""
    with (
        dripping(beginning, drop) as port,
        closing(client_of(f"{LOOPBACK}:{port}")) as client,
        pytest.raises(httpx.ReadTimeout),
    ):
        client.post(f"http://{LOOPBACK}:{port}/query/sql", json={})


def client_of(address: str) -> httpx.Client:
    transport = BoundedTransport(PinotSettings(broker=address), seconds=0.2)
    return httpx.Client(transport=transport, timeout=30.0, trust_env=False)


def test_a_query_to_a_dripping_broker_times_out() -> None:
    with dripping(HEAD) as port:
        settings = PinotSettings(broker=f"{LOOPBACK}:{port}", timeout_seconds=0.05, attempts=1)
        with closing(PinotClient(settings)) as client, pytest.raises(TimedOut):
            client.ask(QUERY)


def test_answers_of_a_controller_are_bounded_too() -> None:
    class Controller(HttpReceiver):
        def found(self, path: str) -> Reply:
            return Reply(200, bomb(8), GZIP)

    with Controller() as receiver:
        settings = bounded(PinotSettings(controller=receiver.url.removeprefix("http://")))
        with closing(PinotController(settings)) as controller, pytest.raises(AnswerTooLarge):
            controller.schema("t")
