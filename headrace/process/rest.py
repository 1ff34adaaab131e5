"""REST server that runs in its own thread. Its socket is bound before other parts of the process start."""

from __future__ import annotations

import asyncio
import contextvars
import errno
import socket
import threading
from functools import partial
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from api.access.listener_settings import LimitSettings, TlsSettings
from api.app import end_streams
from api.brooklin.protocol import BrooklinSurface
from api.settings import ApiSettings
from headrace.process.access import BROOKLIN
from headrace.process.tls import of_listener, protocol_of
from mirror.errors import ConfigError
from mirror.model.clusters import address_of

_USUAL: Final = LimitSettings()
_EVERYWHERE: Final = ("0.0.0.0:", "[::]:")


def advertised_address(api: ApiSettings, bound: str) -> str:
    """Return the address at which other instances reach this instance.

    The address is the configured one, by default `bound` with the host name instead of a wildcard. The
    address starts with `https://` if the listener uses TLS.
    """
    found = api.advertised_address or bound
    if not api.advertised_address and bound.startswith(_EVERYWHERE):
        found = f"{socket.gethostname()}:{bound.rpartition(':')[2]}"
    return f"https://{found}" if api.tls.certificate_file else found


def brooklin_listener(api: ApiSettings, app: FastAPI) -> list[RestServer]:
    """Return a list with the bound listener for Brooklin clients; empty if it is not configured. Raises
    ConfigError."""
    if not api.brooklin.port:
        return []
    found = RestServer(api.brooklin.host, api.brooklin.port, key="api.brooklin.port", limits=api.limits)
    found.bind()
    found.attach(app, BrooklinSurface(app, BROOKLIN))
    return [found]


def unbound_listener(host: str) -> socket.socket:
    """Create a socket whose connections use TCP_NODELAY.

    A response consists of two writes: head and body. Without TCP_NODELAY, the second write waits 40 ms for
    the client's delayed acknowledgement of the first write. asyncio sets the option only for sockets that are
    created with an explicit protocol.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return listener


class ListenerLoop(asyncio.SelectorEventLoop):
    """Event loop with short timeouts for TLS handshakes and shutdowns.

    The defaults of asyncio are 60 s and 30 s, and uvicorn cannot change them. The limits on connections apply
    only after the handshake.
    """

    def __init__(self, handshake_seconds: float) -> None:
        super().__init__()
        self._handshake_seconds = handshake_seconds

    async def create_server(self, *arguments: Any, **more: Any) -> asyncio.Server:
        """Create the server, with short timeouts if it uses TLS."""
        if more.get("ssl") is not None:
            seconds = self._handshake_seconds
            more = {"ssl_handshake_timeout": seconds, "ssl_shutdown_timeout": seconds, **more}
        return await super().create_server(*arguments, **more)


class RestServer:
    """A REST listener with the application that it serves.

    Call `bind`, which fails at once if the port is in use, then `attach` and `start`.
    """

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
        """Address that the listener is bound to, as `host:port`."""
        assert self._socket is not None
        host, port = self._socket.getsockname()[:2]
        return address_of(host, port)

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._server.server_state.connections) if self._server is not None else 0

    def bind(self) -> None:
        """Bind the socket and listen. Raises ConfigError if the address is in use or invalid."""
        listener = unbound_listener(self._host)
        try:
            listener.bind((self._host, self._port))
            listener.listen()  # claims the port; early connections wait
        except OSError as error:
            listener.close()
            raise ConfigError(
                f"cannot bind {address_of(self._host, self._port)}: {error.strerror}",
                advice=self._advice(error),
            ) from error
        self._socket = listener

    def _advice(self, error: OSError) -> str:
        if error.errno == errno.EADDRINUSE:
            return f"stop the process that listens there, or choose another port with {self._key}"
        if error.errno == errno.EACCES:
            return f"choose a port above 1023 with {self._key}"
        return f"choose an address of this host with {self._key.removesuffix('port')}host"

    def attach(self, app: FastAPI, surface: ASGIApp | None = None) -> None:
        """Set the web application to serve. Raises ConfigError for unusable certificates.

        `surface`: part of the application to serve, if another server starts and stops the application.
        """
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
            proxy_headers=False,  # clients can forge X-Forwarded-For
            server_header=False,
            ws="none",
        )
        self._server = uvicorn.Server(config)

    def start(self) -> None:
        """Start to serve requests in a thread, which inherits the log context of the calling thread."""
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
        """Finish open requests, close event streams and stop the thread. Idempotent."""
        if self._app is not None:
            end_streams(self._app)
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(deadline_seconds)
        if self._socket is not None:
            self._socket.close()
