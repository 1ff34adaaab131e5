"""SASL authentication exchanges without I/O: client bytes out, broker bytes in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from mirror.errors import ConfigError, NotAuthorized
from mirror.protocol.control.call import Call


@dataclass(frozen=True, slots=True)
class SaslAccess:
    """SASL credentials of a connection.

    `token`: function that returns a new bearer token (OAUTHBEARER). `service`: the brokers' Kerberos service
    name (GSSAPI, which requires the package gssapi).
    """

    mechanism: str
    username: str = ""
    password: str = ""
    token: Callable[[], str] | None = None
    service: str = "kafka"

    def __repr__(self) -> str:
        return f"SaslAccess({self.mechanism}, {self.username!r})"


class Handshake(NamedTuple):
    """Response to a SaslHandshake request, with the mechanisms that the broker supports."""

    error: int
    mechanisms: Sequence[str]


class SaslStep(NamedTuple):
    """Broker response in the SASL exchange. `lifetime_ms`: reauthenticate within this time; 0 means never."""

    error: int
    message: str
    data: bytes
    lifetime_ms: int


def handshake(mechanism: str) -> Call[Handshake]:
    """Return a request that selects a SASL mechanism."""
    return Call(
        SaslHandshakeRequest,
        SaslHandshakeResponse,
        (1, 1),
        {"mechanism": mechanism},
        lambda response: Handshake(response.error_code, tuple(response.mechanisms)),
    )


def authenticate(data: bytes) -> Call[SaslStep]:
    """Return a request with the client's next bytes of the SASL exchange."""
    return Call(
        SaslAuthenticateRequest,
        SaslAuthenticateResponse,
        (0, 2),
        {"auth_bytes": data},
        lambda response: SaslStep(
            response.error_code,
            response.error_message or "",
            bytes(response.auth_bytes or b""),
            response.session_lifetime_ms or 0,
        ),
    )


class SaslExchange:
    """One SASL authentication: send `next_bytes`, pass the response to `receive`, and repeat until `done`."""

    def __init__(self, access: SaslAccess, host: str) -> None:
        options: dict[str, Any] = {
            "host": host,
            "sasl_mechanism": access.mechanism,
            "sasl_plain_username": _name_for(access),
            "sasl_plain_password": access.password,
            "sasl_kerberos_service_name": access.service,
        }
        if access.token is not None:
            options["sasl_oauth_token_provider"] = TokenProvider(access.token)
        try:
            self._mechanism = get_sasl_mechanism(access.mechanism)(**options)
        except (KeyError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"SASL mechanism {access.mechanism} is not usable: {error}",
                advice="GSSAPI requires the package gssapi",
            ) from error
        except Exception as error:
            raise NotAuthorized(
                f"SASL mechanism {access.mechanism} lacks credentials for {access.service}@{host}: {error}",
                advice="GSSAPI requires a Kerberos ticket: run kinit, or set KRB5_CLIENT_KTNAME to a keytab",
            ) from error

    @property
    def is_done(self) -> bool:
        """Return whether the client has no more bytes to send."""
        return bool(self._mechanism.is_done())

    def next_bytes(self) -> bytes:
        """Return the next bytes to send to the broker."""
        return bytes(self._mechanism.auth_bytes())

    def receive(self, data: bytes) -> None:
        """Process the broker's response. Raises NotAuthorized if the broker fails to authenticate itself."""
        try:
            self._mechanism.receive(data)
        except Exception as error:
            raise NotAuthorized(f"broker failed to authenticate itself: {error}") from error

    def confirm(self) -> None:
        """Raise NotAuthorized unless both sides have authenticated."""
        if not self._mechanism.is_authenticated():
            raise NotAuthorized("broker did not complete the authentication")


def _name_for(access: SaslAccess) -> str:
    """Return the username escaped for SCRAM (commas, equals signs); kafka-python does not escape it."""
    if access.mechanism.startswith("SCRAM"):
        return access.username.replace("=", "=3D").replace(",", "=2C")
    return access.username


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Adapter that makes a function a token provider of kafka-python."""

    def __init__(self, give: Callable[[], str]) -> None:
        self._give = give

    def token(self) -> str:
        """Return a fresh bearer token."""
        return self._give()
