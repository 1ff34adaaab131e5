"""Keys of an issuer of tokens (RFC 7517), out of a file or from a URL.

No call waits for the issuer: keys are read again in a thread of its own, at most once in a while, and what
is known is used meanwhile, unless it is too old.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
import structlog

from mirror.errors import HeadraceError, InvalidRequest, Unreachable
from mirror.model.documents import parsed
from mirror.ports import Clock

_log = structlog.get_logger(__name__)
_ALGORITHMS: Final = {("RSA", None): "RS256", ("EC", "P-256"): "ES256"}
"""Of keys by type and curve: with others, and with those that verifiers share, nothing is verified."""
_LEAST_RSA_BITS: Final = 2_048
_LARGEST: Final = 1_000_000
_KID_SHOWN: Final = 100
AGAIN_SECONDS: Final = 30.0
"""At least, between two questions to the issuer: names of keys that nobody knows cost it nothing more."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """`algorithm`: the only one that it is for."""

    key: Any
    algorithm: str


class IssuerKeys:
    """For any thread. `read` raises HeadraceError or OSError. `most_seconds`: how old keys may be; they are
    read again before."""

    def __init__(self, read: Callable[[], bytes], clock: Clock, most_seconds: float) -> None:
        self._read = read
        self._clock = clock
        self._most_seconds = most_seconds
        self._lock = threading.Lock()
        self._keys: Mapping[str, PublicKey] = {}
        self._read_at: float | None = None
        self._asked_at: float | None = None
        self._is_reading = False

    def refresh(self) -> None:
        """Read them now. Nothing is raised: what was known stays, and the log has why."""
        began = self._clock.monotonic()
        try:
            keys = public_keys(self._read())
        except (HeadraceError, OSError) as error:
            _log.warning("the keys of the issuer cannot be read", reason=str(error))
        else:
            with self._lock:
                self._keys, self._read_at = keys, began
        finally:
            with self._lock:
                self._is_reading = False

    def key(self, name: str) -> PublicKey | None:
        """None: the issuer has no key of that name. Raises Unreachable where that is not known now: nothing
        has been read, or what was read is too old, or just being read again."""
        now = self._clock.monotonic()
        with self._lock:
            age = now - self._read_at if self._read_at is not None else None
            found = self._keys.get(name)
            is_wanted = found is None or age is None or age > self._most_seconds / 10
            is_due = self._asked_at is None or now - self._asked_at >= AGAIN_SECONDS
            asks = is_wanted and is_due and not self._is_reading
            if asks:
                self._asked_at, self._is_reading = now, True
            is_reading = self._is_reading
        if asks:
            threading.Thread(target=self.refresh, name="issuer-keys", daemon=True).start()
        if age is None or age > self._most_seconds or (found is None and is_reading):
            raise Unreachable(
                "the keys of the issuer are not known now",
                advice="call again in a few seconds; the log of this instance says where they cannot be read",
            )
        return found


def public_keys(document: bytes) -> dict[str, PublicKey]:
    """By name; those that sign, with one of the algorithms that are taken here. Raises InvalidRequest."""
    if len(document) > _LARGEST:
        raise InvalidRequest(f"a set of keys has {_LARGEST} bytes at most")
    value = parsed(document)
    listed = value.get("keys") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        raise InvalidRequest('a set of keys is {"keys": […]}')
    found: dict[str, PublicKey] = {}
    for one in listed:
        algorithm = _algorithm_of(one)
        if not algorithm:
            continue
        try:
            key = jwt.PyJWK.from_dict(one, algorithm).key
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            _log.warning("a key of the issuer is of no use", key=one["kid"][:_KID_SHOWN], reason=str(error))
            continue
        if algorithm == "RS256" and key.key_size < _LEAST_RSA_BITS:
            _log.warning("a key of the issuer is too short", key=one["kid"][:_KID_SHOWN], bits=key.key_size)
            continue
        found[one["kid"]] = PublicKey(key, algorithm)
    if not found:
        raise InvalidRequest(f"none of these keys is one for {' or '.join(_ALGORITHMS.values())}")
    return found


def _algorithm_of(one: Any) -> str:
    """Empty: it is no public key, signs nothing, or by other means."""
    if not isinstance(one, dict) or not isinstance(one.get("kid"), str) or "d" in one:
        return ""
    kind, curve = one.get("kty"), one.get("crv")
    if not isinstance(kind, str) or not isinstance(curve, str | None):
        return ""
    algorithm = _ALGORITHMS.get((kind, curve), "")
    is_for_it = one.get("alg", algorithm) == algorithm and one.get("use", "sig") == "sig"
    return algorithm if is_for_it else ""
