"""What an operator can set about calls to a service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from pydantic import Field, model_validator

from mirror.errors import ConfigError, InvalidRequest
from mirror.model.bounds import shown
from mirror.model.clusters import server_addresses
from mirror.options import Settings

TOKEN_VARIABLE: Final = "HEADRACE_TOKEN"  # noqa: S105 - its name
"""The token itself; a file is safer, an option would be in every list of processes."""


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


def _check_address(address: str) -> None:
    if "," in address:
        raise ValueError(f"{shown(address)} is several addresses: write each as an item of the list")
    try:
        service_at("addresses", address)
    except InvalidRequest as error:
        raise ValueError(error.message) from error


class ClientSettings(Settings):
    """How commands call a service."""

    addresses: list[str] = Field(default=[])
    """`host:port` of instances that commands ask, each until one answers; with `https://` in front where it
    has TLS. Empty: as in `api`."""
    token_file: str = ""
    """A file with the token; the variable HEADRACE_TOKEN wins over it."""
    ca_file: str = ""
    """Authorities (PEM) of the service's certificate; empty: the machine's."""
    certificate_file: str = ""
    """The certificate that is shown to the service (PEM)."""
    key_file: str = ""
    """Key of `certificate_file` (PEM); empty: it is in the same file."""

    @model_validator(mode="after")
    def _consistent(self) -> ClientSettings:
        for address in self.addresses:
            _check_address(address)
        if self.key_file and not self.certificate_file:
            raise ValueError("key_file needs certificate_file")
        return self

    def token(self) -> str:
        """Empty where there is none. Raises ConfigError that does not show it."""
        place, found = TOKEN_VARIABLE, os.environ.get(TOKEN_VARIABLE, "").strip()
        if not found and self.token_file:
            place = self.token_file
            try:
                found = Path(self.token_file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"commands.token_file {self.token_file} cannot be read") from error
        if not found.isascii() or not (found.isprintable() and " " not in found):
            raise ConfigError(f"{place} has no token, but something else")
        return found
