"""Whether the instance in this container can serve: exit code 0, else 1. Asks `/v1/ready` over loopback.

The certificate is not checked: it names the host and not 127.0.0.1. Where readiness is not answered without
credentials (`api.access.open_to_all`), an answer that refuses is an answer.
"""

from __future__ import annotations

import os
import ssl
import sys
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection

SECONDS = 4.0
WELL = (HTTPStatus.OK, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def status(connection: HTTPConnection) -> int:
    """What it answers. Raises OSError, HTTPException."""
    try:
        connection.request("GET", "/v1/ready", headers={"Host": "localhost"})
        return connection.getresponse().status
    finally:
        connection.close()


def main() -> int:
    """TLS first: a listener without it fails the handshake at once."""
    port = int(os.environ.get("HEADRACE_API__PORT", "32311"))
    unchecked = ssl.create_default_context()
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    for connection in (
        HTTPSConnection("127.0.0.1", port, timeout=SECONDS / 2, context=unchecked),
        HTTPConnection("127.0.0.1", port, timeout=SECONDS / 2),
    ):
        try:
            return 0 if status(connection) in WELL else 1
        except (OSError, HTTPException):
            continue
    return 1


if __name__ == "__main__":
    sys.exit(main())
