"""Bearer tokens in files: whatever renews a token replaces its file."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Final

from mirror.errors import NotAuthorized

_OPAQUE_SECONDS: Final = 60.0
"""How long a token is used whose end cannot be read from it."""


def token_from_file(path: str) -> Callable[[], str]:
    """Reads the token again for every authentication; raises NotAuthorized where it cannot."""

    def read() -> str:
        try:
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
        except OSError as error:
            raise NotAuthorized(
                f"the token file {path} cannot be read ({error.strerror})",
                advice="whatever renews tokens must write it for the user that runs us",
            ) from error

    return read


def expiry_of(token: str, now: float) -> float:
    """When it ends, in epoch seconds: the claim `exp` of a JSON Web Token (RFC 7519, section 4.1.4), and a
    minute from now for any other."""
    try:
        claims = token.split(".")[1]
        document = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        return float(document["exp"])
    except (LookupError, TypeError, ValueError, binascii.Error):
        return now + _OPAQUE_SECONDS
