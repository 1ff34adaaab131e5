"""Settings of authentication and limits."""

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
    """TLS settings of the listener. Changed certificate files are reloaded without a restart."""

    certificate_file: str = ""
    """Certificate of the server with its chain (PEM); empty: no TLS."""
    key_file: str = ""
    """Key of `certificate_file` (PEM)."""
    key_password: SecretStr = SecretStr("")
    """Password of `key_file`; preferably set in the environment."""
    client_ca_file: str = ""
    """Certificate authorities (PEM) for client certificates. If empty, no client certificates are
    requested."""
    client_certificates: Literal["optional", "required"] = "optional"
    """Requirement for client certificates: `optional` or `required`."""
    instances_ca_file: str = ""
    """Certificate authorities (PEM) used to verify the other instances; empty: system defaults."""

    @model_validator(mode="after")
    def _consistent(self) -> TlsSettings:
        if bool(self.certificate_file) != bool(self.key_file):
            raise ValueError("certificate_file and key_file must be set together")
        if not self.certificate_file and (self.client_ca_file or self.client_certificates == "required"):
            raise ValueError("client certificates require TLS: set certificate_file")
        if self.client_certificates == "required" and not self.client_ca_file:
            raise ValueError("client_certificates = required requires client_ca_file")
        return self


class PrincipalSettings(Settings):
    """Role given to authenticated callers that have no token of this service."""

    role: Role = Role.VIEWER
    """Role of the principal."""
    owners: list[str] = Field(default=[])
    """Owners whose datastreams the principal may change; only for the role owner."""

    @model_validator(mode="after")
    def _possible(self) -> PrincipalSettings:
        try:
            principal_named("principal", self.role, self.owners)
        except InvalidRequest as error:
            raise ValueError(str(error)) from error
        return self


class CertificateSettings(PrincipalSettings):
    """Role of callers that authenticate with a client certificate, whose `NAME` is the principal's name."""

    subject: str = Field(min_length=1)
    """Subject of the certificate, most specific part first: `CN=ci,O=example` (RFC 4514)."""


class OidcSettings(Settings):
    """Authentication with JSON Web Tokens of an OpenID Connect provider (RS256 or ES256).

    Off without `issuer`.
    """

    issuer: str = ""
    """Exact value of the claim `iss`."""
    audience: str = ""
    """Required value of the claim `aud`: the provider's name for this service."""
    keys_url: str = ""
    """URL of the provider's keys (`jwks_uri`); must be https."""
    keys_file: str = ""
    """File with the provider's keys, instead of `keys_url`."""
    keys_ca_file: str = ""
    """Certificate authorities (PEM) used to verify `keys_url`; empty: system defaults."""
    keys_seconds: float = Field(default=3_600, ge=60, le=86_400)
    """Maximum age of the provider's keys. Headrace reloads the keys after a tenth of this time, and when a
    token has an unknown key."""
    deadline_seconds: float = Field(default=5.0, gt=0, le=20)
    """Timeout for loading the keys. While the keys are loaded, requests are checked with the previous
    keys."""
    leeway_seconds: float = Field(default=60.0, ge=0, le=300)
    """Tolerated difference between the provider's clock and the clock of this host."""
    name_claim: str = Field(default="sub", min_length=1)
    """Claim with the name of the principal; its values must be unique."""
    name_prefix: str = Field(default="oidc:", min_length=1)
    """Prefix for the names of OIDC principals, which distinguishes them from the names of tokens and
    certificates."""
    groups_claim: str = Field(default="groups", min_length=1)
    """Claim with the groups of the principal."""
    groups: dict[str, PrincipalSettings] = Field(default={})
    """Roles of groups; a member of several groups has the highest role."""

    @model_validator(mode="after")
    def _whole(self) -> OidcSettings:
        if not self.issuer:
            return self
        if not self.audience or not self.groups:
            raise ValueError("issuer requires audience and groups")
        if bool(self.keys_url) == bool(self.keys_file):
            raise ValueError("issuer requires exactly one of keys_url and keys_file")
        if self.keys_url and not _is_safe(self.keys_url):
            raise ValueError("keys_url must be https (http only for loopback addresses)")
        return self


def _is_safe(url: str) -> bool:
    """Return whether a URL uses https or refers to this machine."""
    try:
        parts = urlsplit(url)
        is_here = parts.scheme == "http" and ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        is_here = False
    return is_here or (url.startswith("https://") and bool(urlsplit(url).hostname))


class AccessSettings(Settings):
    """Authentication of callers. Without `token_file`, `oidc` and certificates, authentication is off."""

    token_file: str = ""
    """File with the hashes of tokens (`headrace token add`); reloaded when it changes."""
    certificates: dict[str, CertificateSettings] = Field(default={})
    """Principals by client certificate."""
    oidc: OidcSettings = OidcSettings()
    open_to_all: list[Literal["health", "metrics"]] = Field(default=[])
    """Endpoints that need no credentials. health: `/health`, `/v1/health` and `/v1/ready`; metrics:
    `/metrics`."""
    allowed_hosts: list[str] = Field(default=[])
    """Accepted host names, in addition to localhost, this host's name, `api.host` and
    `api.advertised_address`."""
    allowed_origins: list[str] = Field(default=[])
    """Origins of other web pages that may make changes: `https://console.example`."""


class LimitSettings(Settings):
    """Limits for callers of the REST interface, so that no caller can overload an instance."""

    calls_per_second: float = Field(default=100.0, ge=0, le=1_000_000)
    """Sustained calls per second of one principal; 0: unlimited. Calls of `/health`, `/v1/health`,
    `/v1/ready` and `/metrics` do not count. Without authentication there is no limit."""
    burst: int = Field(default=1_000, ge=1)
    """Number of calls that one principal may make in a burst."""
    slow_calls_at_once: int = Field(default=4, ge=1)
    """Maximum number of concurrent calls that query other servers, per principal and per owner. The limit for
    all callers together is 8."""
    streams_at_once: int = Field(default=20, ge=1)
    """Maximum number of concurrent event streams, per principal and per owner. The limit for all callers
    together is 200."""
    head_seconds: float = Field(default=10.0, gt=0)
    """Timeout for receiving the headers of a request. The timeout starts with the connection or, for a later
    request on the same connection, with the first byte of the request. The TLS handshake has the same
    timeout."""
    body_seconds: float = Field(default=30.0, gt=0)
    """Timeout for receiving the body of a request."""
    answer_seconds: float = Field(default=60.0, gt=0)
    """Timeout for a client to read the next part of a response."""
    unread_bytes: int = Field(default=67_108_864, ge=1)
    """Maximum total size of a listener's responses that clients have not read yet, in bytes. If this size is
    exceeded, the responses that have waited longest are aborted."""
    connections: int = Field(default=1_000, ge=1)
    """Maximum number of connections per listener."""
    connections_of_one_address: int = Field(default=500, ge=1)
    """Maximum number of connections per client address and listener."""


class BrooklinListenerSettings(PrincipalSettings):
    """Listener for Brooklin clients, which send no credentials. Every caller is the principal `brooklin`, and
    can use only Brooklin's interface."""

    host: str = "127.0.0.1"
    """Address to bind."""
    port: int = Field(default=0, ge=0, le=65535)
    """Port to bind; 0 disables the listener."""
    insecure: bool = False
    """Allow an address other than loopback. Health reports this as a problem."""
