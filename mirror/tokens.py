"""Bearer tokens in files, which an external process renews by replacing the file."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Final

from mirror.errors import NotAuthorized

_OPAQUE_SECONDS: Final = 60.0
"""Assumed lifetime of a token without a readable expiry."""


def token_from_file(path: str) -> Callable[[], str]:
    """Return a function that reads the token for each authentication; it raises NotAuthorized if the file is
    unreadable."""

    def read() -> str:
        try:
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
        except OSError as error:
            raise NotAuthorized(
                f"cannot read the token file {path} ({error.strerror})",
                advice="the process that renews it must make it readable for the user of this service",
            ) from error

    return read


def expiry_of(token: str, now: float) -> float:
    """Return the expiry in epoch seconds: the claim `exp` of a JSON Web Token (RFC 7519, section 4.1.4), or
    one minute from now for any other token."""
    try:
        claims = token.split(".")[1]
        document = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        return float(document["exp"])
    except (LookupError, TypeError, ValueError, binascii.Error):
        return now + _OPAQUE_SECONDS
