"""Negotiates the compression of responses (RFC 9110)."""

from __future__ import annotations

import re
from typing import Final

from fastapi import Request

_NEVER: Final = re.compile(r"q=0(\.0*)?")


def accepts_gzip(request: Request) -> bool:
    """Return whether the client accepts a response that is compressed with gzip."""
    for coding in ",".join(request.headers.getlist("accept-encoding")).lower().split(","):
        name, _, weight = (part.strip() for part in coding.partition(";"))
        if name == "gzip":
            return not _NEVER.fullmatch(weight)
    return False
