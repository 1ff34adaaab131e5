"""Where REST has what commands ask for."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from mirror.errors import InvalidRequest

DATASTREAMS: Final = "/v1/datastreams"


def path_of(name: str) -> str:
    """Where REST has a datastream of any name, also one that is damaged. Raises InvalidRequest for names
    that would lead elsewhere."""
    if name in ("", ".", ".."):
        raise InvalidRequest(f"no datastream is named {name!r}", advice="headrace datastream list shows them")
    return f"{DATASTREAMS}/{quote(name, safe='', errors='surrogatepass')}"
