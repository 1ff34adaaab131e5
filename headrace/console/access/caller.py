"""Where a service is, and how commands prove who calls."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from mirror.errors import ConfigError, InvalidRequest
from mirror.model.bounds import shown
from mirror.model.clusters import server_addresses

TOKEN_VARIABLE: Final = "HEADRACE_TOKEN"  # noqa: S105 - its name
"""The token itself; a file is safer, an option would be in every list of processes."""

LARGEST_ANSWER_BYTES: Final = 512 * 1024 * 1024


class Credentials(Protocol):
    """How a client proves who calls, whom it trusts, and how much it reads."""

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
class Caller:
    """As `ClientSettings`, which are checked."""

    token_file: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    largest_answer_bytes: int = LARGEST_ANSWER_BYTES

    def token(self) -> str:
        """Empty where there is none. Raises ConfigError that does not show it."""
        return token_of(self.token_file)


@dataclass(frozen=True)
class ServiceAccess:
    """`addresses`: of instances, separated by commas."""

    addresses: str
    caller: Credentials


def token_of(token_file: str) -> str:
    """The token of the environment, else of the file; empty where there is none. Raises ConfigError that does
    not show it."""
    place, found = TOKEN_VARIABLE, os.environ.get(TOKEN_VARIABLE, "").strip()
    if not found and token_file:
        place = token_file
        try:
            found = Path(token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"commands.token_file {token_file} cannot be read") from error
    if not found.isascii() or not (found.isprintable() and " " not in found):
        raise ConfigError(f"{place} has no token, but something else")
    return found


def service_at(what: str, address: str, scheme: str = "") -> str:
    """Return the address of an instance's REST, with its scheme or this one. Raises InvalidRequest that names
    `what` for an address that is none."""
    given, _, place = address.rpartition("://")
    if given not in ("", "http", "https"):
        raise InvalidRequest(
            f"{what}: {shown(address)} is no address", advice="host:port, or https://host:port"
        )
    server_addresses(what, place)
    scheme = given or scheme
    return f"{scheme}://{place}" if scheme else place


def services_at(given: str, *, is_tls: bool) -> str:
    """Return the addresses of a list, those without a scheme with that of the first, else with `https://`
    where the service has TLS. Raises InvalidRequest for an address that is none."""
    scheme = given.partition(",")[0].rpartition("://")[0] or ("https" if is_tls else "")
    return ",".join(service_at("--at", one.strip(), scheme) for one in given.split(","))
