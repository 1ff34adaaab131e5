"""Authentication exchanges, step by step: our bytes out, the broker's bytes in."""

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
    """How to prove who we are. `token`: gives a fresh bearer token (OAUTHBEARER); `service`: the
    brokers' Kerberos service name (GSSAPI, which needs the package gssapi)."""

    mechanism: str
    username: str = ""
    password: str = ""
    token: Callable[[], str] | None = None
    service: str = "kafka"

    def __repr__(self) -> str:
        return f"SaslAccess({self.mechanism}, {self.username!r})"


class Handshake(NamedTuple):
    """Whether the broker has the mechanism, and those that it has."""

    error: int
    mechanisms: Sequence[str]


class Step(NamedTuple):
    """The broker's turn. `lifetime_ms`: authenticate again within it; 0 means never."""

    error: int
    message: str
    data: bytes
    lifetime_ms: int


def handshake(mechanism: str) -> Call[Handshake]:
    """Choose the mechanism."""
    return Call(
        SaslHandshakeRequest,
        SaslHandshakeResponse,
        (1, 1),
        lambda version: SaslHandshakeRequest(mechanism=mechanism, version=version),
        lambda response: Handshake(response.error_code, tuple(response.mechanisms)),
    )


def authenticate(data: bytes) -> Call[Step]:
    """One step of the exchange."""
    return Call(
        SaslAuthenticateRequest,
        SaslAuthenticateResponse,
        (0, 2),
        lambda version: SaslAuthenticateRequest(auth_bytes=data, version=version),
        lambda response: Step(
            response.error_code,
            response.error_message or "",
            bytes(response.auth_bytes or b""),
            response.session_lifetime_ms or 0,
        ),
    )


class Exchange:
    """One run of a mechanism: `next_bytes`, send, `receive` the answer, until `done`."""

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
                f"SASL mechanism {access.mechanism} cannot be used: {error}",
                advice="GSSAPI needs the package gssapi",
            ) from error
        except Exception as error:
            raise NotAuthorized(
                f"SASL mechanism {access.mechanism} has no credentials for {access.service}@{host}: {error}",
                advice="GSSAPI needs a valid Kerberos ticket: kinit, or a keytab in KRB5_CLIENT_KTNAME",
            ) from error

    @property
    def done(self) -> bool:
        """Whether no further step is due."""
        return bool(self._mechanism.is_done())

    def next_bytes(self) -> bytes:
        """What to send."""
        return bytes(self._mechanism.auth_bytes())

    def receive(self, data: bytes) -> None:
        """Take the broker's answer. Raises NotAuthorized when it does not prove who it is."""
        try:
            self._mechanism.receive(data)
        except Exception as error:
            raise NotAuthorized(f"the broker's part of the authentication is wrong: {error}") from error

    def confirm(self) -> None:
        """Raises NotAuthorized unless both sides are satisfied."""
        if not self._mechanism.is_authenticated():
            raise NotAuthorized("the broker did not complete the authentication")


def _name_for(access: SaslAccess) -> str:
    """SCRAM separates its fields by commas and equals signs; the library leaves their escaping to us."""
    if access.mechanism.startswith("SCRAM"):
        return access.username.replace("=", "=3D").replace(",", "=2C")
    return access.username


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Bearer tokens as the library asks for them."""

    def __init__(self, give: Callable[[], str]) -> None:
        self._give = give

    def token(self) -> str:
        """A fresh one."""
        return self._give()
