"""Addresses of a service, and credentials with which commands call it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from mirror.errors import ConfigError, InvalidRequest
from mirror.model.bounds import shown
from mirror.model.clusters import server_addresses

TOKEN_VARIABLE: Final = "HEADRACE_TOKEN"  # noqa: S105 - only the name
"""Environment variable with the token.

A token file is safer. There is no option for the token, because it would be visible in process lists.
"""

LARGEST_ANSWER_BYTES: Final = 512 * 1024 * 1024


class ClientCredentials(Protocol):
    """Credentials of a REST client, its trusted authorities, and its limit on response sizes."""

    @property
    def largest_answer_bytes(self) -> int: ...

    @property
    def ca_file(self) -> str: ...
    @property
    def certificate_file(self) -> str: ...
    @property
    def key_file(self) -> str: ...
    def token(self) -> str: ...


@dataclass(frozen=True)
class CallerSettings:
    """Credentials of commands, read without validation. `ClientSettings` contains the validated settings."""

    token_file: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    largest_answer_bytes: int = LARGEST_ANSWER_BYTES

    def token(self) -> str:
        """Return the access token, empty if there is none. Raises ConfigError without the token in its
        message."""
        return token_of(self.token_file)


@dataclass(frozen=True)
class ServiceAccess:
    """Addresses of a service's instances, separated by commas, and credentials to call it."""

    addresses: str
    caller: ClientCredentials


def token_of(token_file: str) -> str:
    """Return the access token from the environment variable, else from the file; empty if there is neither.
    Raises ConfigError without the token in its message."""
    place, found = TOKEN_VARIABLE, os.environ.get(TOKEN_VARIABLE, "").strip()
    if not found and token_file:
        place = token_file
        try:
            found = Path(token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read commands.token_file {token_file}") from error
    if not found.isascii() or not (found.isprintable() and " " not in found):
        raise ConfigError(f"invalid token in {place}: contains spaces, control or non-ASCII characters")
    return found


def service_at(option: str, address: str, scheme: str = "") -> str:
    """Return the REST address of an instance. Raises InvalidRequest.

    `option`: name of the option, for errors. `scheme`: added to an address without a scheme.
    """
    given, _, place = address.rpartition("://")
    if given not in ("", "http", "https"):
        raise InvalidRequest(
            f"{option}: invalid address {shown(address)}", advice="write host:port or https://host:port"
        )
    server_addresses(option, place)
    scheme = given or scheme
    return f"{scheme}://{place}" if scheme else place


def services_at(given: str, *, is_tls: bool) -> str:
    """Return the REST addresses in a comma-separated list. Raises InvalidRequest.

    An address without a scheme gets the scheme of the first address. Without a scheme there, the address gets
    `https://` if the service uses TLS.
    """
    scheme = given.partition(",")[0].rpartition("://")[0] or ("https" if is_tls else "")
    return ",".join(service_at("--at", address.strip(), scheme) for address in given.split(","))
