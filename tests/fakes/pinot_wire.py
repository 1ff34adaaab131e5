"""Fake Pinot broker and controller that answer every request with a given body."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

from pinot.settings import PinotSettings


@contextmanager
def answering(
    body: Callable[[str], bytes], attempts: int = 3, headers: Mapping[str, str] | None = None
) -> Iterator[PinotSettings]:
    """Run the server. `body`: of the response to a query or a path, with status 200; `headers`: additional
    headers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 65_536  # one segment: a second one would wait for the ACK of the first

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._respond(body(asked["sql"]))

        def do_GET(self) -> None:
            self._respond(body(self.path))

        def _respond(self, answer: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        address = f"127.0.0.1:{server.server_port}"
        yield PinotSettings(broker=address, controller=address, attempts=attempts)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def columns_of(sql: str) -> int:
    """Return the number of columns of a query."""
    columns = sql.lower().partition("select ")[2].partition(" from ")[0]
    depth, found = 0, 1
    for character in columns:
        depth += (character == "(") - (character == ")")
        found += character == "," and not depth
    return found


def answer_of(rows: Sequence[Sequence[Any]], sql: str) -> bytes:
    """Return the response of Pinot with these rows, complete from one server."""
    width = columns_of(sql)
    schema = {"columnNames": ["n"] * width, "columnDataTypes": ["LONG"] * width}
    servers = {"numServersQueried": 1, "numServersResponded": 1}
    table = {"dataSchema": schema, "rows": rows}
    return json.dumps({"resultTable": table, "exceptions": [], **servers}).encode()
