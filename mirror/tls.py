"""TLS contexts that are made again when their files change: certificates expire, and are replaced on disk."""

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
    """A context for new connections that `make` makes again when one of `files` changes.

    Files that do not fit together, as while they are replaced one by one, leave the former context in force.
    For any thread.
    """

    def __new__(cls, make: Callable[[], ssl.SSLContext], files: Sequence[str]) -> ReloadingContext:
        """Ignore the arguments: an SSLContext takes a protocol, of which only the type is used here."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Sequence[str]) -> None:
        """Make the first context. Empty names in `files` are ignored. Raises ConfigError as `make` does."""
        self._make = make
        self._files = [one for one in files if one]
        self._lock = threading.Lock()
        self._stamps = stamps_of(self._files)
        self._newest = make()

    def wrap_bio(self, *arguments: Any, **more: Any) -> ssl.SSLObject:
        """Begin a connection with the newest context."""
        return self.newest().wrap_bio(*arguments, **more)

    def wrap_socket(self, *arguments: Any, **more: Any) -> ssl.SSLSocket:
        """Begin a connection with the newest context."""
        return self.newest().wrap_socket(*arguments, **more)

    def newest(self) -> ssl.SSLContext:
        """Return the context of the files as they are now, or the last one that could be made."""
        with self._lock:
            if (stamps := stamps_of(self._files)) != self._stamps:
                self._stamps = stamps
                names = ", ".join(self._files)
                try:
                    self._newest = self._make()
                except ConfigError as error:
                    _log.warning(
                        "changed TLS files %s cannot be used, the former ones stay: %s", names, error
                    )
                else:
                    _log.info("TLS files %s were read again", names)
            return self._newest


def client_context(
    ca_file: str, certificate_file: str = "", key_file: str = "", key_password: str = ""
) -> ssl.SSLContext:
    """Return a context that checks certificates and host names of servers, by PEM files of these names.

    Empty names stand for the system's authorities and for no certificate of our own. Raises OSError and
    ValueError where they cannot be used.
    """
    context = ssl.create_default_context(cafile=ca_file or None)
    if certificate_file:
        # A function, as OpenSSL asks at the terminal where an encrypted key comes without a password.
        context.load_cert_chain(certificate_file, key_file, lambda: key_password)
    return context


def trusting(ca_file: str, name: str) -> ReloadingContext:
    """Return a context that trusts the authorities of `ca_file`, or the system's if that is empty.

    Raises ConfigError that names the setting `name`.
    """

    def make() -> ssl.SSLContext:
        try:
            return client_context(ca_file)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{name}: {ca_file} cannot be used: {error}",
                advice="it must be a readable PEM file with the certificates of authorities",
            ) from error

    return ReloadingContext(make, [ca_file])


def stamps_of(files: Sequence[str]) -> list[tuple[int, ...]]:
    """Return for each file what differs when it is replaced or written; () for one that is not there."""
    found: list[tuple[int, ...]] = []
    for file in files:
        try:
            now = os.stat(file)
        except OSError:
            found.append(())
        else:
            found.append((now.st_dev, now.st_ino, now.st_mtime_ns, now.st_ctime_ns, now.st_size))
    return found
