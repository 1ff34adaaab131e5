"""Health check of the instance in this container: exit code 0 if it is ready, else 1.

Calls `/v1/ready` over loopback.

The certificate is not verified: it names the host and not 127.0.0.1. If readiness requires credentials (see
`api.access.open_to_all`), a response that rejects the request also counts as healthy.
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
    """Return the HTTP status of `/v1/ready`. Raises OSError, HTTPException."""
    try:
        connection.request("GET", "/v1/ready", headers={"Host": "localhost"})
        return connection.getresponse().status
    finally:
        connection.close()


def main() -> int:
    """Try TLS first: a listener without TLS fails the handshake immediately."""
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
