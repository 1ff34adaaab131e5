"""TLS of the REST listener. New connections use changed certificate files."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Sequence
from typing import Final

from api.access.gate import SUBJECT
from api.access.listener_settings import LimitSettings, TlsSettings
from headrace.process.connections import BoundedProtocol
from mirror.errors import ConfigError
from mirror.loggers import get_logger
from mirror.tls import ReloadingContext

_log = get_logger(__name__)
_SHORT: Final = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""Short names of attributes in RFC 4514. Other attributes have their OpenSSL names."""
_ESCAPED: Final = ',+"\\<>;='


def server_context(tls: TlsSettings) -> ssl.SSLContext:
    """Return the TLS context of the REST listener (TLS 1.2 or newer). Raises ConfigError.

    The context contains the certificate, and verifies client certificates.
    """
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.minimum_version = ssl.TLSVersion.TLSv1_2
    _show(found, tls)
    if tls.client_ca_file:
        is_required = tls.client_certificates == "required"
        found.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
        _trust(found, "client_ca_file", tls.client_ca_file)
    return found


def instances_context(tls: TlsSettings) -> ssl.SSLContext:
    """Return the TLS context for requests to other instances. Raises ConfigError.

    The client certificate is the certificate of this instance.
    """
    found = ssl.create_default_context()
    found.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.instances_ca_file:
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        found.minimum_version = ssl.TLSVersion.TLSv1_2
        _trust(found, "instances_ca_file", tls.instances_ca_file)
    _show(found, tls)
    return found


def _show(context: ssl.SSLContext, tls: TlsSettings) -> None:
    try:
        context.load_cert_chain(tls.certificate_file, tls.key_file, tls.key_password.get_secret_value)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot load api.tls.certificate_file and key_file: {file_problem(error)}",
            advice="both must be PEM files; key_file must contain the key of the first certificate",
        ) from error


def _trust(context: ssl.SSLContext, key: str, file: str) -> None:
    try:
        context.load_verify_locations(file)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot load api.tls.{key}: {file}: {file_problem(error)}") from error


def file_problem(error: Exception) -> str:
    """Return the reason why a file cannot be loaded."""
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__


def of_listener(tls: TlsSettings) -> ReloadingContext:
    """Return a TLS context for the REST listener that reloads changed files. Raises ConfigError."""
    files = (tls.certificate_file, tls.key_file, tls.client_ca_file)
    return ReloadingContext(lambda: server_context(tls), files)


def is_readable(tls: TlsSettings) -> bool:
    """Return whether the certificate files can be loaded now. True without TLS."""
    try:
        if tls.certificate_file:
            server_context(tls)
    except ConfigError as error:
        _log.warning("cannot load certificate", reason=str(error))
        return False
    return True


def of_instances(tls: TlsSettings) -> ReloadingContext:
    """Return a TLS context for requests to other instances that reloads changed files. Raises ConfigError."""
    files = (tls.certificate_file, tls.key_file, tls.instances_ca_file)
    return ReloadingContext(lambda: instances_context(tls), files)


class CertifiedProtocol(BoundedProtocol):
    """HTTP protocol that adds the subject of the verified client certificate to the state of each request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Record the subject of the client certificate, which the handshake has verified."""
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self.app_state = {**self.app_state, SUBJECT: subject_of(certificate["subject"])}


def protocol_of(limits: LimitSettings) -> type[CertifiedProtocol]:
    """Create the HTTP protocol class of one listener, whose limits and counters are class attributes."""

    class Protocol(CertifiedProtocol):
        pass

    Protocol.limits, Protocol.by_address = limits, Counter()
    Protocol.unread, Protocol.silent = {}, {}
    return Protocol


def subject_of(parts: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Format a certificate subject according to RFC 4514.

    The most specific part comes first. Special characters in values are escaped. `parts`: as in the module
    `ssl`.
    """
    return ",".join(
        "+".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in part)
        for part in reversed(parts)
    )


def _escaped(value: str) -> str:
    text = "".join(
        f"\\{character}" if character in _ESCAPED else character for character in value.replace("\0", "\\00")
    )
    begins = "\\" if text[:1] in (" ", "#") else ""
    return f"{begins}{text[:-1]}\\ " if text.endswith(" ") and len(text) > 1 else f"{begins}{text}"
