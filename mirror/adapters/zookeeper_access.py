"""Authentication of a ZooKeeper session: kazoo's options, TLS, and SASL with DIGEST-MD5.

kazoo's own SASL requires the package pure-sasl. This module replaces it for one mechanism, using private
methods of kazoo's connection. A test fails if one of them disappears.
"""

from __future__ import annotations

import secrets
import socket
import ssl
from collections.abc import Sequence
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS, AuthFailedError
from kazoo.protocol.serialization import SASL
from kazoo.security import ACL, CREATOR_ALL_ACL, Permissions

from mirror.adapters.digest_md5 import DigestMd5
from mirror.adapters.settings import ZooKeeperSecurity
from mirror.errors import ConfigError, NotAuthorized
from mirror.tls import ReloadingContext, client_context

_DIGEST_URI: Final = "zookeeper/zk-sasl-md5"
"""URI that ZooKeeper's servers and clients use for every host."""
_SASL_XID: Final = 1


def client_options(security: ZooKeeperSecurity) -> dict[str, Any]:
    """Return the arguments of KazooClient."""
    options: dict[str, Any] = {}
    if security.mechanism == "digest":
        options["auth_data"] = [("digest", f"{security.username}:{security.password.get_secret_value()}")]
    if security.is_private:
        options["default_acl"] = CREATOR_ALL_ACL
    return options


def is_open(rules: Sequence[ACL]) -> bool:
    """Return whether the ACLs grant anything to everyone with network access."""
    return any(rule.id.scheme == "world" and rule.perms & Permissions.ALL for rule in rules)


def connect_through_tls(client: KazooClient, security: ZooKeeperSecurity) -> None:
    """Use TLS for every connection of the client. A connection is closed if its handshake fails.

    Raises ConfigError for unusable certificates.
    """
    context = tls_context(security)

    def connect(address: tuple[str, int], hostname: str, timeout: float, **_: object) -> socket.socket:
        return tls_connection(context, address, hostname, timeout)

    client.handler.create_connection = connect


def tls_connection(
    context: ssl.SSLContext, address: tuple[str, int], hostname: str, timeout: float
) -> ssl.SSLSocket:
    """Perform the TLS handshake, and return the connection. `timeout`: in seconds. Raises OSError."""
    plain = socket.create_connection(address, timeout)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context.wrap_socket(plain, server_hostname=hostname)
    except OSError:
        plain.close()
        raise


def tls_context(security: ZooKeeperSecurity) -> ReloadingContext:
    """Return a TLS context that reloads changed files.

    Raises ConfigError for unusable certificates.
    """
    files = security.ca_file, security.certificate_file, security.key_file
    return ReloadingContext(lambda: _context_of(security), files)


def _context_of(security: ZooKeeperSecurity) -> ssl.SSLContext:
    try:
        context = client_context(
            security.ca_file,
            security.certificate_file,
            security.key_file,
            security.key_password.get_secret_value(),
        )
    except (OSError, ValueError) as error:
        files = ", ".join(filter(None, (security.ca_file, security.certificate_file, security.key_file)))
        raise ConfigError(f"zookeeper.security: cannot load {files} ({error})") from error
    if not security.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def authenticate_by_sasl(client: KazooClient, security: ZooKeeperSecurity) -> None:
    """Authenticate every connection of the client with DIGEST-MD5.

    A connection that breaks during authentication is retried; only a rejection ends the session.
    """
    connection = client._connection  # noqa: SLF001
    connection.sasl_options = {}  # anything but None makes kazoo call the method replaced below

    def authenticate(_host: str, timeout: float) -> None:
        password = security.password.get_secret_value()
        exchange = DigestMd5(security.username, password, _DIGEST_URI, secrets.token_hex(16))
        try:
            challenge = _exchange(connection, b"", timeout)
            exchange.check(_exchange(connection, exchange.answer(challenge), timeout))
        except NotAuthorized as error:
            raise AuthFailedError(error.message) from error

    connection._authenticate_with_sasl = authenticate  # noqa: SLF001


def _exchange(connection: Any, token: bytes, timeout: float) -> bytes:
    connection._submit(SASL(token), timeout, _SASL_XID)  # noqa: SLF001
    header, buffer, offset = connection._read_header(timeout)  # noqa: SLF001
    if header.err:
        raise EXCEPTIONS[header.err]()
    answer, _ = SASL.deserialize(buffer, offset)
    return answer or b""
