"""TLS of the listener: certificates are read again when their files change, for connections from then on."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from api.access.gate import SUBJECT
from api.access.settings import LimitSettings, TlsSettings
from headrace.process.connections import BoundedProtocol
from mirror.errors import ConfigError

_log = structlog.get_logger(__name__)
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
"""RFC 4514; other parts keep the names that OpenSSL has for them."""
_ESCAPED: Final = ',+"\\<>;='


def server_context(tls: TlsSettings) -> ssl.SSLContext:
    """What the listener shows, and asks of callers, from TLS 1.2 on. Raises ConfigError."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.minimum_version = ssl.TLSVersion.TLSv1_2
    _show(found, tls)
    if tls.client_ca_file:
        is_required = tls.client_certificates == "required"
        found.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
        _trust(found, "client_ca_file", tls.client_ca_file)
    return found


def instances_context(tls: TlsSettings) -> ssl.SSLContext:
    """For questions to the other instances, to which this one shows its own certificate. Raises
    ConfigError."""
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
            f"api.tls.certificate_file and key_file cannot be used: {_reason(error)}",
            advice="they are PEM files, the key is that of the first certificate",
        ) from error


def _trust(context: ssl.SSLContext, key: str, file: str) -> None:
    try:
        context.load_verify_locations(file)
    except (OSError, ValueError) as error:
        raise ConfigError(f"api.tls.{key} cannot be used: {file}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__


class FreshContext(ssl.SSLContext):
    """One that is made again by `make` when its files change. Files that do not fit together, as while they
    are replaced one by one, leave the former one in force. For any thread."""

    def __new__(cls, make: Callable[[], ssl.SSLContext], files: Sequence[str]) -> FreshContext:
        """Python's own has the protocol here; none of it is used but its type."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Sequence[str]) -> None:
        self._make = make
        self._files = [one for one in files if one]
        self._lock = threading.Lock()
        self._seen = _stamps(self._files)
        self._inner = make()

    def wrap_bio(self, *arguments: Any, **more: Any) -> ssl.SSLObject:
        """Of each connection, in its beginning."""
        return self.newest().wrap_bio(*arguments, **more)

    def wrap_socket(self, *arguments: Any, **more: Any) -> ssl.SSLSocket:
        """Likewise, for callers that wait."""
        return self.newest().wrap_socket(*arguments, **more)

    def newest(self) -> ssl.SSLContext:
        """That of the files as they are."""
        with self._lock:
            if (seen := _stamps(self._files)) != self._seen:
                self._seen = seen
                try:
                    self._inner = self._make()
                except ConfigError as error:
                    _log.warning("new certificates cannot be used", reason=str(error))
                else:
                    _log.info("certificates are read again")
            return self._inner


def of_listener(tls: TlsSettings) -> FreshContext:
    """Raises ConfigError."""
    files = (tls.certificate_file, tls.key_file, tls.client_ca_file)
    return FreshContext(lambda: server_context(tls), files)


def is_readable(tls: TlsSettings) -> bool:
    """Return whether a listener could be opened with the files as they are now; without TLS it could."""
    try:
        if tls.certificate_file:
            server_context(tls)
    except ConfigError as error:
        _log.warning("the certificate cannot be used", reason=str(error))
        return False
    return True


def of_instances(tls: TlsSettings) -> FreshContext:
    """Raises ConfigError."""
    files = (tls.certificate_file, tls.key_file, tls.instances_ca_file)
    return FreshContext(lambda: instances_context(tls), files)


def _stamps(files: Sequence[str]) -> list[tuple[int, ...]]:
    """What differs when a file is another one; nothing of one that is not there."""
    found: list[tuple[int, ...]] = []
    for file in files:
        try:
            now = os.stat(file)
        except OSError:
            found.append(())
        else:
            found.append((now.st_dev, now.st_ino, now.st_mtime_ns, now.st_ctime_ns, now.st_size))
    return found


class CertifiedProtocol(BoundedProtocol):
    """Says in the state of each call whose certificate its connection has shown."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The handshake is done: what is there was verified."""
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self.app_state = {**self.app_state, SUBJECT: subject_of(certificate["subject"])}


def protocol_of(limits: LimitSettings) -> type[CertifiedProtocol]:
    """Of one listener, whose connections are counted apart."""

    class Protocol(CertifiedProtocol):
        pass

    Protocol.limits, Protocol.by_address = limits, Counter()
    Protocol.unread, Protocol.silent = {}, {}
    return Protocol


def subject_of(parts: Sequence[Sequence[tuple[str, str]]]) -> str:
    """A subject as `ssl` has it, in the form of RFC 4514, the most specific part first. What could be taken
    for the beginning of another part is escaped."""
    return ",".join(
        "+".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in one)
        for one in reversed(parts)
    )


def _escaped(value: str) -> str:
    text = "".join(f"\\{one}" if one in _ESCAPED else one for one in value.replace("\0", "\\00"))
    begins = "\\" if text[:1] in (" ", "#") else ""
    return f"{begins}{text[:-1]}\\ " if text.endswith(" ") and len(text) > 1 else f"{begins}{text}"
