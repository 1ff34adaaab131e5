"""Reads the public keys of a token issuer (RFC 7517) from a file or a URL.

REST requests never wait for the issuer. A separate thread refreshes the keys. Known keys remain in use until
they are too old.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt

from mirror.errors import HeadraceError, InvalidRequest, Unreachable
from mirror.loggers import get_logger
from mirror.model.documents import parsed
from mirror.ports import Clock

_log = get_logger(__name__)
_ALGORITHMS: Final = {("RSA", None): "RS256", ("EC", "P-256"): "ES256"}
"""Algorithm by key type and curve. Other key types, including symmetric keys, are rejected."""
_LEAST_RSA_BITS: Final = 2_048
_LARGEST: Final = 1_000_000
_KID_SHOWN: Final = 100
AGAIN_SECONDS: Final = 30.0
"""Minimum seconds between requests to the issuer.

Without this limit, tokens with unknown key ids could cause many requests.
"""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key of the token issuer. `algorithm`: the only algorithm with which the key may be used."""

    key: Any
    algorithm: str


class IssuerKeys:
    """Cached public keys of the token issuer. Thread-safe.

    `read`: returns the key set; raises HeadraceError or OSError. `most_seconds`: maximum age of the keys,
    which are refreshed after a tenth of this time.
    """

    def __init__(self, read: Callable[[], bytes], clock: Clock, most_seconds: float) -> None:
        self._read = read
        self._clock = clock
        self._most_seconds = most_seconds
        self._lock = threading.Lock()
        self._keys: Mapping[str, PublicKey] = {}
        self._read_at: float | None = None
        self._requested_at: float | None = None
        self._is_reading = False

    def refresh(self) -> None:
        """Read the issuer's keys now. On failure, log a warning and keep the known keys."""
        began = self._clock.monotonic()
        try:
            keys = public_keys(self._read())
        except (HeadraceError, OSError) as error:
            _log.warning("cannot read issuer keys", reason=str(error))
        else:
            with self._lock:
                self._keys, self._read_at = keys, began
        finally:
            with self._lock:
                self._is_reading = False

    def key(self, name: str) -> PublicKey | None:
        """Return the key with this id, or None if the issuer has no such key.

        Raises Unreachable if no keys have been read, if the keys are too old, or if the key is unknown and a
        refresh is in progress.
        """
        now = self._clock.monotonic()
        with self._lock:
            age = now - self._read_at if self._read_at is not None else None
            found = self._keys.get(name)
            is_wanted = found is None or age is None or age > self._most_seconds / 10
            is_due = self._requested_at is None or now - self._requested_at >= AGAIN_SECONDS
            needs_reading = is_wanted and is_due and not self._is_reading
            if needs_reading:
                self._requested_at, self._is_reading = now, True
            is_reading = self._is_reading
        if needs_reading:
            threading.Thread(target=self.refresh, name="issuer-keys", daemon=True).start()
        if age is None or age > self._most_seconds or (found is None and is_reading):
            raise Unreachable(
                "issuer keys are unavailable",
                advice="retry in a few seconds; the log of this instance has the cause",
            )
        return found


def public_keys(document: bytes) -> dict[str, PublicKey]:
    """Map the id of each usable signing key in a key set to the key. Raises InvalidRequest."""
    if len(document) > _LARGEST:
        raise InvalidRequest(f"the key set exceeds {_LARGEST} bytes")
    value = parsed(document)
    listed = value.get("keys") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        raise InvalidRequest('invalid key set: expected {"keys": […]}')
    found: dict[str, PublicKey] = {}
    for listed_key in listed:
        algorithm = _algorithm_of(listed_key)
        if not algorithm:
            continue
        try:
            key = jwt.PyJWK.from_dict(listed_key, algorithm).key
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            _log.warning(
                "ignoring unusable issuer key", key=listed_key["kid"][:_KID_SHOWN], reason=str(error)
            )
            continue
        if algorithm == "RS256" and key.key_size < _LEAST_RSA_BITS:
            _log.warning("ignoring short issuer key", key=listed_key["kid"][:_KID_SHOWN], bits=key.key_size)
            continue
        found[listed_key["kid"]] = PublicKey(key, algorithm)
    if not found:
        raise InvalidRequest(f"the key set has no usable key for {' or '.join(_ALGORITHMS.values())}")
    return found


def _algorithm_of(document: Any) -> str:
    """Return the algorithm of a key; empty unless it is a public signing key with a supported algorithm."""
    if not isinstance(document, dict) or not isinstance(document.get("kid"), str) or "d" in document:
        return ""
    kind, curve = document.get("kty"), document.get("crv")
    if not isinstance(kind, str) or not isinstance(curve, str | None):
        return ""
    algorithm = _ALGORITHMS.get((kind, curve), "")
    is_for_it = document.get("alg", algorithm) == algorithm and document.get("use", "sig") == "sig"
    return algorithm if is_for_it else ""
