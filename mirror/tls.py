"""TLS contexts that reload when their files change, since certificates expire and are replaced on disk."""

from __future__ import annotations

import logging
import os
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any

from mirror.errors import ConfigError

_log = logging.getLogger(__name__)


class ReloadingContext(ssl.SSLContext):
    """A context for new connections that is rebuilt by `make` when one of `files` changes.

    If the files are inconsistent, for example while they are replaced one by one, the former context stays in
    use. Thread-safe.
    """

    def __new__(cls, make: Callable[[], ssl.SSLContext], files: Sequence[str]) -> ReloadingContext:
        """Create the object; SSLContext expects a protocol, so the arguments are ignored here."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Sequence[str]) -> None:
        """Build the first context. Empty names in `files` are ignored. Raises ConfigError like `make`."""
        self._make = make
        self._files = [file for file in files if file]
        self._lock = threading.Lock()
        self._stamps = stamps_of(self._files)
        self._newest = make()

    def wrap_bio(self, *arguments: Any, **more: Any) -> ssl.SSLObject:
        """Start a connection with the latest context."""
        return self.newest().wrap_bio(*arguments, **more)

    def wrap_socket(self, *arguments: Any, **more: Any) -> ssl.SSLSocket:
        """Start a connection with the latest context."""
        return self.newest().wrap_socket(*arguments, **more)

    def newest(self) -> ssl.SSLContext:
        """Return the context of the current files, or the last valid one."""
        with self._lock:
            if (stamps := stamps_of(self._files)) != self._stamps:
                self._stamps = stamps
                names = ", ".join(self._files)
                try:
                    self._newest = self._make()
                except ConfigError as error:
                    _log.warning(
                        "cannot load changed TLS files %s, keeping the former ones: %s", names, error
                    )
                else:
                    _log.info("TLS files %s reloaded", names)
            return self._newest


def client_context(
    ca_file: str, certificate_file: str = "", key_file: str = "", key_password: str = ""
) -> ssl.SSLContext:
    """Return a context that verifies servers' certificates and host names, built from PEM files.

    Empty names mean the system's authorities and no client certificate. Raises OSError and ValueError for
    unusable files.
    """
    context = ssl.create_default_context(cafile=ca_file or None)
    if certificate_file:
        # A function, because OpenSSL prompts on the terminal for an encrypted key without a password.
        context.load_cert_chain(certificate_file, key_file, lambda: key_password)
    return context


def trusting(ca_file: str, name: str) -> ReloadingContext:
    """Return a context that trusts the authorities in `ca_file`, or the system's if empty.

    Raises ConfigError that names the setting `name`.
    """

    def make() -> ssl.SSLContext:
        try:
            return client_context(ca_file)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{name}: cannot load {ca_file}: {error}",
                advice="it must be a readable PEM file with CA certificates",
            ) from error

    return ReloadingContext(make, [ca_file])


def stamps_of(files: Sequence[str]) -> list[tuple[int, ...]]:
    """Return for each file its identity, times and size, which change when it is replaced or written; () for
    a missing file."""
    found: list[tuple[int, ...]] = []
    for file in files:
        try:
            now = os.stat(file)
        except OSError:
            found.append(())
        else:
            found.append((now.st_dev, now.st_ino, now.st_mtime_ns, now.st_ctime_ns, now.st_size))
    return found
