"""Default address of the REST listener, and the test for loopback addresses."""

from __future__ import annotations

import ipaddress
from typing import Final

HOST: Final = "127.0.0.1"
PORT: Final = 32_311
"""Brooklin's default port."""


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable only from this machine. Names other than localhost are not: they
    may resolve to another address later."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback
