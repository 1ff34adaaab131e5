"""Where REST listens by default, and what of it only this machine reaches."""

from __future__ import annotations

import ipaddress
from typing import Final

HOST: Final = "127.0.0.1"
PORT: Final = 32_311
"""Brooklin's port by default."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what is bound there. A name other than localhost may mean another
    address tomorrow, and counts as one that can be reached."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback
