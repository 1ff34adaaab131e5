"""Alert receivers on loopback: a recorder, a validating Alertmanager, and one that never ends a response."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import urlsplit

from stack.ports import LOOPBACK
from tests.patience import PATIENCE_SECONDS

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True)
class Request:
    """Recorded POST request."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """Response to send."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpReceiver:
    """HTTP server that records requests. An exception in `answer` breaks the connection."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answer: Callable[[Request], Reply] = lambda _: Reply()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = Request(self.path, dict(self.headers.items()), body)
                receiver.requests.append(request)
                self.reply(receiver.answer(request))

            def do_GET(self) -> None:
                self.reply(receiver.found(self.path))

            def reply(self, reply: Reply) -> None:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._server.server_port}"

    def found(self, path: str) -> Reply:
        """Return the response to a GET."""
        return Reply(404)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_SECONDS)


class CheckingAlertmanager(HttpReceiver):
    """Fake Alertmanager with the checks of `postAlertsHandler`, for hosts without the binary.

    Alerts resolve when their `endsAt` has passed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answer = self._post
        self._alerts: dict[str, dict[str, Any]] = {}

    def found(self, path: str) -> Reply:
        if urlsplit(path).path != "/api/v2/alerts":
            return Reply(404)
        now = datetime.now(UTC)
        active = [one for one in self._alerts.values() if _moment(one["endsAt"]) > now]
        return Reply(200, json.dumps(active).encode(), {"Content-Type": "application/json"})

    def _post(self, request: Request) -> Reply:
        if request.path != "/api/v2/alerts":
            return Reply(404)
        if request.headers.get("Content-Type") != "application/json":
            return Reply(415)
        try:
            alerts = json.loads(request.body)
            problems = [problem for one in alerts if (problem := _complaint(one))]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return Reply(422, json.dumps({"code": 601, "message": str(error)}).encode())
        for one in alerts:
            if not _complaint(one):
                key = hashlib.sha256(json.dumps(one["labels"], sort_keys=True).encode()).hexdigest()[:16]
                self._alerts[key] = one | {"fingerprint": key, "status": {"state": "active"}}
        return Reply(400, json.dumps("; ".join(problems)).encode()) if problems else Reply()


def _complaint(alert: Mapping[str, Any]) -> str:
    """Return the reason why Alertmanager rejects the alert, or an empty string.

    Raises what json and datetime raise if the alert violates the OpenAPI schema.
    """
    if set(alert) - {"labels", "annotations", "startsAt", "endsAt", "generatorURL"}:
        raise ValueError("unknown fields")
    if not urlsplit(alert["generatorURL"]).netloc:
        raise ValueError("generatorURL in body must be of type uri")
    texts = [*alert["labels"].values(), *alert["annotations"].values()]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("labels and annotations are texts")
    if not alert["labels"]:
        return "at least one label pair required"
    if not all(_LABEL.fullmatch(name) for name in (*alert["labels"], *alert["annotations"])):
        return "invalid label set: invalid name"
    return (
        "start time must be before end time" if _moment(alert["endsAt"]) < _moment(alert["startsAt"]) else ""
    )


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or "T" not in text:
        raise ValueError(f"{text} is not an RFC 3339 date-time")
    return moment


@contextmanager
def dripping(beginning: bytes = b"", drop: bytes = b"x") -> Iterator[int]:
    """Run a server that starts a response and then sends `drop` repeatedly, without end; yield its port.

    An empty drop makes it silent.
    """
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                connection.sendall(beginning)
                while not over.wait(0.02):
                    connection.sendall(drop)
            except OSError:
                return

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            if over.is_set():
                connection.close()
                return
            threads.append(threading.Thread(target=serve, args=(connection,)))
            threads[-1].start()

    threads: list[threading.Thread] = []
    with socket.create_server((LOOPBACK, 0)) as listener:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            socket.create_connection(listener.getsockname()).close()
            for one in (accepting, *threads):
                one.join(PATIENCE_SECONDS)
