"""TLS contexts that reload changed files, because certificates expire and are replaced on disk."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from mirror.errors import ConfigError
from mirror.loggers import get_logger

_log = get_logger(__name__)


class ReloadingContext(ssl.SSLContext):
    """TLS context that reloads changed certificate files for new connections.

    `make`: builds the context again when one of `files` has changed.

    If the files are inconsistent, for example while they are being replaced, the previous context remains in
    use. Thread-safe.
    """

    def __new__(
        cls, make: Callable[[], ssl.SSLContext], files: Sequence[str], certificate_file: str = ""
    ) -> ReloadingContext:
        """Create the object. The arguments are ignored, because SSLContext expects a protocol."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(
        self, make: Callable[[], ssl.SSLContext], files: Sequence[str], certificate_file: str = ""
    ) -> None:
        """Build the first TLS context. Raises ConfigError if `make` does.

        Empty names in `files` are ignored.
        """
        self._make = make
        self._files = [file for file in files if file]
        self.certificate_file = certificate_file
        """File of the certificate of this process, for errors; empty if there is none."""
        self._lock = threading.Lock()
        self._stamps = stamps_of(self._files)
        self._newest = make()

    def wrap_bio(self, *arguments: Any, **more: Any) -> ssl.SSLObject:
        """Start a TLS connection with the latest context."""
        return self.newest().wrap_bio(*arguments, **more)

    def wrap_socket(self, *arguments: Any, **more: Any) -> ssl.SSLSocket:
        """Start a TLS connection with the latest context."""
        return self.newest().wrap_socket(*arguments, **more)

    def newest(self) -> ssl.SSLContext:
        """Return the context for the current files, or the last valid context if they are invalid."""
        with self._lock:
            if (stamps := stamps_of(self._files)) != self._stamps:
                self._stamps = stamps
                try:
                    self._newest = self._make()
                except ConfigError as error:
                    _log.warning("TLS files not reloaded", files=self._files, reason=str(error))
                else:
                    _log.info("TLS files reloaded", files=self._files)
            return self._newest


def certificate_file_of(context: ssl.SSLContext | None) -> str:
    """Return the certificate file that this process uses in a TLS context, empty if there is none."""
    return context.certificate_file if isinstance(context, ReloadingContext) else ""


def client_context(
    ca_file: str, certificate_file: str = "", key_file: str = "", key_password: str = ""
) -> ssl.SSLContext:
    """Return an SSL context that verifies certificates and host names of servers.

    The files are in PEM format. Empty names mean the authorities of the system, and no client certificate.
    Raises OSError and ValueError for unusable files.
    """
    context = ssl.create_default_context(cafile=ca_file or None)
    if certificate_file:
        # A function, because OpenSSL prompts on the terminal for an encrypted key without a password.
        context.load_cert_chain(certificate_file, key_file, lambda: key_password)
    return context


def trusting(ca_file: str, name: str) -> ReloadingContext:
    """Return a TLS context that trusts the authorities in `ca_file`, or the system's if empty.

    Raises ConfigError that names the setting `name`.
    """

    def make() -> ssl.SSLContext:
        try:
            return client_context(ca_file)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{name}: cannot load {ca_file}: {error}",
                advice="the file must be readable and contain CA certificates in PEM format",
            ) from error

    return ReloadingContext(make, [ca_file])


DAY_SECONDS: Final = 86_400.0


class CertificateValidity(NamedTuple):
    """End of validity of the certificates in a file.

    `setting`: setting that names the file. `until_ms`: end of the validity (epoch ms), None if the file
    cannot be read. `problem`: reason.
    """

    setting: str
    file: str
    until_ms: int | None
    problem: str = ""

    def seconds_left(self, now_ms: int) -> float | None:
        """Return the seconds until the certificate expires, negative if it has expired, None if unknown."""
        return None if self.until_ms is None else (self.until_ms - now_ms) / 1000


def expiry_times(file: str) -> list[int]:
    """Return the end of the validity (epoch ms) of each certificate in a PEM file, in order.

    Raises ConfigError for a file without readable certificates.
    """
    from cryptography import x509  # not needed by a worker whose connections succeed

    try:
        found = x509.load_pem_x509_certificates(Path(file).read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the certificates in {file}: {error}") from error
    return [int(certificate.not_valid_after_utc.timestamp() * 1000) for certificate in found]


def validity_text(file: str) -> str:
    """Return a phrase for a message: the name of a certificate file, and until when it is valid."""
    try:
        until_ms = min(expiry_times(file))
    except ConfigError as error:
        return f"{file} ({error.message})"
    return f"{file} (valid until {datetime.fromtimestamp(until_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC)"


def stamps_of(files: Sequence[str]) -> list[tuple[int, ...]]:
    """Return values for each file that change when it is replaced or written; () for a missing file."""
    found: list[tuple[int, ...]] = []
    for file in files:
        try:
            now = os.stat(file)
        except OSError:
            found.append(())
        else:
            found.append((now.st_dev, now.st_ino, now.st_mtime_ns, now.st_ctime_ns, now.st_size))
    return found
