"""Client side of SASL DIGEST-MD5 (RFC 2831) as used by ZooKeeper. Pure.

This implementation supports quality of protection `auth`, algorithm `md5-sess` and UTF-8. Client and server
each prove that they know the password.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from mirror.errors import NotAuthorized

_DIRECTIVE: Final = re.compile(r'([\w-]+)=(?:"((?:[^"\\]|\\.)*)"|([^,\s]*))')
_COUNT: Final = "00000001"


class DigestMd5:
    """A DIGEST-MD5 authentication exchange. Call `answer` with the server's challenge, then `check` with the
    server's proof.

    `nonce`: new random text of the client. Methods raise NotAuthorized if the server does not support
    DIGEST-MD5 or does not know the password.
    """

    def __init__(self, username: str, password: str, digest_uri: str, nonce: str) -> None:
        self._username = username
        self._password = password
        self._uri = digest_uri
        self._own_nonce = nonce
        self._expected = ""

    def answer(self, challenge: bytes) -> bytes:
        """Return the client's response to a challenge. `digest-uri` is `<service>/<host>`."""
        challenged = directives(challenge)
        if "nonce" not in challenged or "auth" not in challenged.get("qop", "auth").split(","):
            raise NotAuthorized("the server did not send a DIGEST-MD5 challenge")
        realm, nonce = challenged.get("realm", ""), challenged["nonce"]
        secret = _md5(f"{self._username}:{realm}:{self._password}".encode())
        session = _md5(secret + f":{nonce}:{self._own_nonce}".encode()).hex()
        middle = f"{nonce}:{_COUNT}:{self._own_nonce}:auth"
        proof = _proof(session, middle, f"AUTHENTICATE:{self._uri}")
        self._expected = _proof(session, middle, f":{self._uri}")
        fields = {
            "username": _quoted(self._username),
            "realm": _quoted(realm),
            "nonce": _quoted(nonce),
            "cnonce": _quoted(self._own_nonce),
            "nc": _COUNT,
            "qop": "auth",
            "digest-uri": _quoted(self._uri),
            "response": proof,
            "charset": "utf-8",
        }
        return ",".join(f"{name}={value}" for name, value in fields.items()).encode()

    def check(self, final: bytes) -> None:
        """Verify the server's proof, the directive `rspauth`. Raises NotAuthorized."""
        if not self._expected or directives(final).get("rspauth") != self._expected:
            raise NotAuthorized("the server failed to prove that it knows the password")


def directives(text: bytes) -> dict[str, str]:
    """Parse comma-separated directives such as `name=value` and `name="value"` into a dictionary."""
    return {
        name: re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        for name, quoted, plain in _DIRECTIVE.findall(text.decode("utf-8", "replace"))
    }


def _proof(session: str, middle: str, uri: str) -> str:
    return _md5(f"{session}:{middle}:{_md5(uri.encode()).hex()}".encode()).hex()


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()  # required by the mechanism


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
