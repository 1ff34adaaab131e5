"""REST in a thread of its own: uvicorn on a socket that is bound before anything else starts."""

from __future__ import annotations

import asyncio
import contextvars
import socket
import threading
from functools import partial
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from api.access.settings import LimitSettings, TlsSettings
from api.app import end_streams
from api.brooklin.surface import BrooklinSurface
from api.settings import ApiSettings
from headrace.process.access import BROOKLIN
from headrace.process.tls import of_listener, protocol_of
from mirror.errors import ConfigError
from mirror.model.clusters import address_of

_USUAL: Final = LimitSettings()
_EVERYWHERE: Final = ("0.0.0.0:", "[::]:")


def advertised_address(api: ApiSettings, bound: str) -> str:
    """Where other instances reach the one that listens at `bound`: as configured, or there; a socket on all
    addresses is reached by the name of its host. With TLS it begins with `https://`."""
    found = api.advertised_address or bound
    if not api.advertised_address and bound.startswith(_EVERYWHERE):
        found = f"{socket.gethostname()}:{bound.rpartition(':')[2]}"
    return f"https://{found}" if api.tls.certificate_file else found


def brooklin_listener(api: ApiSettings, app: FastAPI) -> list[RestServer]:
    """That of Brooklin's clients, bound, if the settings have one. Raises ConfigError."""
    if not api.brooklin.port:
        return []
    found = RestServer(api.brooklin.host, api.brooklin.port, key="api.brooklin.port", limits=api.limits)
    found.bind()
    found.attach(app, BrooklinSurface(app, BROOKLIN))
    return [found]


def unbound_listener(host: str) -> socket.socket:
    """A socket whose connections send a small answer at once. An answer is two writes, head and body: without
    TCP_NODELAY the second waits 40 ms for the client's delayed acknowledgement of the first. asyncio sets the
    option only for sockets that name their protocol."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return listener


class ListenerLoop(asyncio.SelectorEventLoop):
    """Its TLS connections begin and end within some seconds; asyncio's own limits are 60 and 30, and the
    server has no setting for them. A connection is counted once its handshake is over."""

    def __init__(self, handshake_seconds: float) -> None:
        super().__init__()
        self._handshake_seconds = handshake_seconds

    async def create_server(self, *arguments: Any, **more: Any) -> asyncio.Server:
        """As asked for."""
        if more.get("ssl") is not None:
            seconds = self._handshake_seconds
            more = {"ssl_handshake_timeout": seconds, "ssl_shutdown_timeout": seconds, **more}
        return await super().create_server(*arguments, **more)


class RestServer:
    """`bind` first (a busy port is found at once), then `attach` and `start`."""

    def __init__(
        self,
        host: str,
        port: int,
        tls: TlsSettings | None = None,
        key: str = "api.port",
        limits: LimitSettings = _USUAL,
    ) -> None:
        self._host = host
        self._port = port
        self._tls = tls if tls is not None and tls.certificate_file else None
        self._key = key
        self._limits = limits
        self._socket: socket.socket | None = None
        self._app: FastAPI | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """`host:port` as bound."""
        assert self._socket is not None
        host, port = self._socket.getsockname()[:2]
        return address_of(host, port)

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._server.server_state.connections) if self._server is not None else 0

    def bind(self) -> None:
        """Raises ConfigError when the port is taken."""
        listener = unbound_listener(self._host)
        try:
            listener.bind((self._host, self._port))
            listener.listen()  # only this claims the port; who comes early waits
        except OSError as error:
            listener.close()
            raise ConfigError(
                f"REST cannot listen on {address_of(self._host, self._port)} ({error.strerror})",
                advice=f"set {self._key}, or --port 0 for a free one",
            ) from error
        self._socket = listener

    def attach(self, app: FastAPI, surface: ASGIApp | None = None) -> None:
        """What is served: the application, or a part of it, which then begins and ends with another server.
        Raises ConfigError for certificates that cannot be used."""
        self._app = app
        context = of_listener(self._tls) if self._tls else None
        config = uvicorn.Config(
            surface or app,
            http=protocol_of(self._limits),
            lifespan="off" if surface else "auto",
            ssl_context_factory=(lambda *_: context) if context else None,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=3,
            proxy_headers=False,  # X-Forwarded-For is whatever a caller writes
            server_header=False,
            ws="none",
        )
        self._server = uvicorn.Server(config)

    def start(self) -> None:
        """Begin to answer; what is logged says the same of this process as in the thread that starts it."""
        assert self._server is not None
        assert self._socket is not None
        server, listener = self._server, self._socket
        context = contextvars.copy_context()
        loop = partial(ListenerLoop, self._limits.head_seconds)

        def run() -> None:
            with asyncio.Runner(loop_factory=loop) as runner:
                runner.run(server.serve([listener]))

        self._thread = threading.Thread(target=lambda: context.run(run), name="rest")
        self._thread.start()

    def stop(self, deadline_seconds: float) -> None:
        """Finish open requests, end streams and the thread. Safe to call twice."""
        if self._app is not None:
            end_streams(self._app)
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(deadline_seconds)
        if self._socket is not None:
            self._socket.close()
