"""What an operator can set about who may call."""

from __future__ import annotations

import ipaddress
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from api.access.rights import Role
from api.access.tokens import principal_named
from mirror.errors import InvalidRequest
from mirror.options import Settings


class TlsSettings(Settings):
    """Of the listener. The files are read again when they change, without a restart."""

    certificate_file: str = ""
    """Our certificate with its chain (PEM); empty: no TLS."""
    key_file: str = ""
    """Key of `certificate_file` (PEM)."""
    key_password: SecretStr = SecretStr("")
    """Password of `key_file`; best given in the environment."""
    client_ca_file: str = ""
    """Authorities (PEM) of the certificates that callers may show; empty: none is asked for."""
    client_certificates: Literal["optional", "required"] = "optional"
    """Whether a connection without a certificate is taken."""
    instances_ca_file: str = ""
    """Authorities (PEM) of the certificates of the other instances; empty: the machine's."""

    @model_validator(mode="after")
    def _consistent(self) -> TlsSettings:
        if bool(self.certificate_file) != bool(self.key_file):
            raise ValueError("certificate_file and key_file go together")
        if not self.certificate_file and (self.client_ca_file or self.client_certificates == "required"):
            raise ValueError("client certificates are asked for by TLS only: certificate_file is needed")
        if self.client_certificates == "required" and not self.client_ca_file:
            raise ValueError("client_certificates = required needs client_ca_file")
        return self


class PrincipalSettings(Settings):
    """What a caller may do here who has no token of this service."""

    role: Role = Role.VIEWER
    """What it may do."""
    owners: list[str] = Field(default=[])
    """With the role owner: owners of the datastreams that it may change."""

    @model_validator(mode="after")
    def _possible(self) -> PrincipalSettings:
        try:
            principal_named("principal", self.role, self.owners)
        except InvalidRequest as error:
            raise ValueError(str(error)) from error
        return self


class CertificateSettings(PrincipalSettings):
    """A principal that shows a certificate; `NAME` is what it is called here."""

    subject: str = Field(min_length=1)
    """Of the certificate, the most specific part first: `CN=ci,O=example` (RFC 4514)."""


class OidcSettings(Settings):
    """Callers by JSON Web Tokens of an OpenID Connect provider, signed with RS256 or ES256. Without `issuer`
    there are none."""

    issuer: str = ""
    """What tokens have as `iss`, to the letter."""
    audience: str = ""
    """What they have as `aud`: this service, as the provider knows it. Required."""
    keys_url: str = ""
    """Where the provider shows its keys (`jwks_uri`), by https."""
    keys_file: str = ""
    """The same as a file, instead."""
    keys_ca_file: str = ""
    """Authorities (PEM) of the certificate at `keys_url`; empty: the machine's."""
    keys_seconds: float = Field(default=3_600, ge=60, le=86_400)
    """How old its keys may be. They are read again every tenth of it, and for a key that is not known."""
    deadline_seconds: float = Field(default=5.0, gt=0, le=20)
    """How long reading the keys may take; no call waits for it."""
    leeway_seconds: float = Field(default=60.0, ge=0, le=300)
    """How far the provider's clock may be from ours."""
    name_claim: str = Field(default="sub", min_length=1)
    """What of a token is the name of the principal; it must be one that nobody else can get."""
    name_prefix: str = Field(default="oidc:", min_length=1)
    """Before these names, so that none is that of a token or a certificate here."""
    groups_claim: str = Field(default="groups", min_length=1)
    """Where a token has its groups."""
    groups: dict[str, PrincipalSettings] = Field(default={})
    """What members of a group may do: of several groups the highest role counts."""

    @model_validator(mode="after")
    def _whole(self) -> OidcSettings:
        if not self.issuer:
            return self
        if not self.audience or not self.groups:
            raise ValueError("issuer needs audience and groups")
        if bool(self.keys_url) == bool(self.keys_file):
            raise ValueError("issuer needs keys_url or keys_file")
        if self.keys_url and not _is_safe(self.keys_url):
            raise ValueError("keys_url is read by https; by http from an address of this machine only")
        return self


def _is_safe(url: str) -> bool:
    """Whether nobody on the way can answer in place of the one who is asked."""
    try:
        parts = urlsplit(url)
        is_here = parts.scheme == "http" and ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        is_here = False
    return is_here or (url.startswith("https://") and bool(urlsplit(url).hostname))


class AccessSettings(Settings):
    """Who may call. Without `token_file`, `oidc` and certificates nobody is asked who they are."""

    token_file: str = ""
    """Hashes of the tokens (`headrace token add`); read again when it changes."""
    certificates: dict[str, CertificateSettings] = Field(default={})
    """Principals by their certificates."""
    oidc: OidcSettings = OidcSettings()
    open_to_all: list[Literal["health", "metrics"]] = Field(default=[])
    """What is answered without credentials: `/health`, `/v1/health` and `/v1/ready`; `/metrics`."""
    allowed_hosts: list[str] = Field(default=[])
    """Names of this service in addresses, besides localhost, this host's name, `api.host` and
    `api.advertised_address`."""
    allowed_origins: list[str] = Field(default=[])
    """Web pages that may change things here with a browser: `https://console.example`."""


class LimitSettings(Settings):
    """What callers may take of the REST interface of an instance, so that the others are answered."""

    calls_per_second: float = Field(default=100.0, ge=0, le=1_000_000)
    """Of one principal, over a while; 0: any number. `/health`, `/v1/health`, `/v1/ready` and `/metrics` do
    not count, nor does anything where nobody is asked who they are."""
    burst: int = Field(default=1_000, ge=1)
    """Calls of one principal at once, after a while without any."""
    slow_calls_at_once: int = Field(default=4, ge=1)
    """Calls of one principal, or of all principals of one owner, that ask other servers, at the same time; of
    all there are 8."""
    streams_at_once: int = Field(default=20, ge=1)
    """Streams of events of one principal, or of all principals of one owner, at the same time; of all there
    are 200."""
    head_seconds: float = Field(default=10.0, gt=0)
    """How long the head of a call may take, from the first byte or the beginning of the connection, and the
    TLS handshake before it."""
    body_seconds: float = Field(default=30.0, gt=0)
    """How long the body of a call may take."""
    answer_seconds: float = Field(default=60.0, gt=0)
    """How long a caller may take to read what is sent of an answer at once."""
    unread_bytes: int = Field(default=67_108_864, ge=1)
    """Of all answers of a listener that callers have not read yet; beyond it those that wait longest end."""
    connections: int = Field(default=1_000, ge=1)
    """Connections at a time, of each listener."""
    connections_of_one_address: int = Field(default=500, ge=1)
    """Likewise, from the same address."""


class BrooklinListenerSettings(PrincipalSettings):
    """A listener for Brooklin's clients alone, which send no credentials: all who reach it are the principal
    `brooklin`, and find nothing but Brooklin's interface."""

    host: str = "127.0.0.1"
    """Address to bind."""
    port: int = Field(default=0, ge=0, le=65535)
    """0: there is none."""
    insecure: bool = False
    """Whether it may be reached from elsewhere; health shows it."""
