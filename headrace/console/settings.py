"""What an operator can set about calls to a service."""

from __future__ import annotations

from pydantic import Field, PositiveInt, model_validator

from headrace.console.access.caller import LARGEST_ANSWER_BYTES, service_at, token_of
from mirror.errors import InvalidRequest
from mirror.model.bounds import shown
from mirror.options import Settings


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
    largest_answer_bytes: PositiveInt = LARGEST_ANSWER_BYTES
    """Size of the largest response of a service that commands read."""

    @model_validator(mode="after")
    def _consistent(self) -> ClientSettings:
        for address in self.addresses:
            _check_address(address)
        if self.key_file and not self.certificate_file:
            raise ValueError("key_file needs certificate_file")
        return self

    def token(self) -> str:
        """Empty where there is none. Raises ConfigError that does not show it."""
        return token_of(self.token_file)
