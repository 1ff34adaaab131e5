"""Addresses and credentials of a cluster. `access_from` builds a `ClusterAccess` from settings."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mirror.errors import ConfigError, InvalidRequest, Unreachable
from mirror.model.bounds import shown
from mirror.model.clusters import bootstrap_servers, is_like
from mirror.protocol.control.cluster import Endpoint
from mirror.protocol.control.sasl import SaslAccess
from mirror.tls import ReloadingContext, certificate_file_of, client_context
from mirror.tokens import token_from_file


@dataclass(frozen=True)
class ClusterAccess:
    """Addresses and credentials of a cluster.

    `bootstrap`: bootstrap servers. `tls`: None for plaintext. `sasl`: None without authentication. `rack`:
    rack of this client, to fetch from the nearest replica (KIP-392); if empty, the client fetches from
    leaders. `advertised`: patterns of the listeners that brokers may advertise. A pattern with a leading `!`
    excludes listeners, and takes precedence.
    """

    bootstrap: tuple[Endpoint, ...]
    tls: ssl.SSLContext | None = None
    sasl: SaslAccess | None = None
    rack: str = ""
    advertised: tuple[str, ...] = ("*",)

    @property
    def principal(self) -> str:
        """Principal of this client in ACLs, such as `User:mirror`, or a description if only brokers know the
        principal."""
        if self.sasl is not None:
            if self.sasl.username:
                return f"User:{self.sasl.username}"
            return "the subject of the token" if self.sasl.token else "the Kerberos principal of this client"
        file = certificate_file_of(self.tls)
        return f"the subject of {file}" if file else "User:ANONYMOUS"

    @property
    def has_certificate(self) -> bool:
        """Return whether this client has a certificate."""
        return bool(certificate_file_of(self.tls))

    def check(self, server: Endpoint) -> None:
        """Check that the settings permit connections to this listener. Raises Unreachable if they do not."""
        if not self.may_reach(server):
            raise Unreachable(
                f"a broker advertises {shown(server.host)}:{server.port}, which is not allowed",
                advice="allow it in clusters.NAME.advertised or mirror.definitions.addresses",
            )

    def may_reach(self, server: Endpoint) -> bool:
        """Return whether the settings permit connections to this listener. Bootstrap servers always match."""
        if server in self.bootstrap:
            return True
        refused = [pattern[1:] for pattern in self.advertised if pattern.startswith("!")]
        if any(is_like(server, pattern) for pattern in refused):
            return False
        return any(is_like(server, pattern) for pattern in self.advertised if not pattern.startswith("!"))


@dataclass(frozen=True)
class TlsFiles:
    """PEM files of a client for TLS.

    `ca_file`: empty for the certificate authorities of the system. `certificate_file`: empty without a client
    certificate.
    """

    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    key_password: str = ""


def tls_context(files: TlsFiles) -> ReloadingContext:
    """Return an SSL context that verifies brokers and reloads PEM files that changed.

    Raises ConfigError.
    """
    names = files.ca_file, files.certificate_file, files.key_file
    return ReloadingContext(lambda: _context_of(files), names, files.certificate_file)


def _context_of(files: TlsFiles) -> ssl.SSLContext:
    try:
        return client_context(files.ca_file, files.certificate_file, files.key_file, files.key_password)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot load the TLS files: {error}",
            advice="ca_file, certificate_file and key_file must be readable PEM files that match each other",
        ) from error


def access_from(document: Mapping[str, Any]) -> ClusterAccess:
    """Build a `ClusterAccess` from the settings of a cluster, including secrets.

    Reads `bootstrap_servers`, `rack`, `security` and `advertised`. Raises ConfigError.
    """
    security = document["security"]
    tls = sasl = None
    if security["protocol"].endswith("SSL"):
        names = ("ca_file", "certificate_file", "key_file", "key_password")
        tls = tls_context(TlsFiles(*(security[name] for name in names)))
    if security["protocol"].startswith("SASL"):
        sasl = SaslAccess(
            security["mechanism"],
            security["username"],
            security["password"],
            token_from_file(security["token_file"]) if security["token_file"] else None,
            security["kerberos_service"],
        )
    advertised = tuple(document.get("advertised", ("*",)))
    return ClusterAccess(endpoints(document["bootstrap_servers"]), tls, sasl, document["rack"], advertised)


def endpoints(addresses: str) -> tuple[Endpoint, ...]:
    """Parse the endpoints in `host:port[,host:port…]`, such as `[::1]:9092`. Raises ConfigError."""
    try:
        return tuple(Endpoint(*server) for server in bootstrap_servers("bootstrap_servers", addresses))
    except InvalidRequest as error:
        raise ConfigError(error.message, advice=error.advice) from error
