"""Proxies of the environment receive no plain requests, and only the destination of TLS requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest
from pydantic import SecretStr

from headrace.console.client import RestClient
from headrace.console.settings import ClientSettings
from mirror.errors import HeadraceError
from monitor.adapters.receivers.http_call import HttpCall
from pinot.client import PinotClient
from pinot.deployment.controller import PinotController
from pinot.settings import PinotSettings
from stack.ports import LOOPBACK

TOKEN: Final = "hr_a-token-that-nobody-may-see"
ELSEWHERE: Final = "headrace.invalid:443"


class Listener:
    """Records the method and credentials of each request, and responds with 502."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None]] = []
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def note(self) -> None:
                listener.seen.append((self.command, self.headers.get("Authorization")))
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_error(502)

            do_GET = do_POST = do_CONNECT = note  # noqa: N815 - names of http.server

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self.address = f"{LOOPBACK}:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.stop()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    proxy = Listener()
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://{proxy.address}")
        monkeypatch.setenv(name.upper(), f"http://{proxy.address}")
    yield proxy
    proxy.stop()


def by_command(address: str, tls: bool, folder: Path) -> None:
    (folder / "token").write_text(TOKEN)
    settings = ClientSettings(token_file=str(folder / "token"))
    client = RestClient(f"{'https' if tls else 'http'}://{address}", settings=settings)
    try:
        client.get("/v1/plan")
    finally:
        client.close()


def of_pinot(address: str, tls: bool) -> PinotSettings:
    return PinotSettings(
        broker=address,
        controller=address,
        tls=tls,
        username="headrace",
        password=SecretStr(TOKEN),
        attempts=1,
    )


def by_broker(address: str, tls: bool, _: Path) -> None:
    client = PinotClient(of_pinot(address, tls))
    try:
        client.ask("select n from t limit 1")
    finally:
        client.close()


def by_controller(address: str, tls: bool, _: Path) -> None:
    controller = PinotController(of_pinot(address, tls))
    try:
        controller.schema("t")
    finally:
        controller.close()


def by_receiver(address: str, tls: bool, _: Path) -> None:
    url = f"{'https' if tls else 'http'}://{address}/hook"
    HttpCall("", 5.0).post(url, b"{}", {"Authorization": f"Bearer {TOKEN}"}, has_credentials=True, now_ms=0)


CALLS: Final = (by_command, by_broker, by_controller, by_receiver)
Call = Callable[[str, bool, Path], None]


@pytest.mark.parametrize("call", CALLS)
def test_a_plain_request_goes_past_every_proxy(
    call: Call, proxy: Listener, listener: Listener, tmp_path: Path
) -> None:
    with pytest.raises(HeadraceError):
        call(listener.address, False, tmp_path)
    assert not proxy.seen
    ((_, credentials),) = listener.seen
    assert credentials


@pytest.mark.parametrize("call", CALLS)
def test_a_proxy_of_a_request_by_tls_gets_no_credentials(call: Call, proxy: Listener, tmp_path: Path) -> None:
    with pytest.raises(HeadraceError):
        call(ELSEWHERE, True, tmp_path)
    assert proxy.seen == [("CONNECT", None)]
