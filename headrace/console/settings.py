"""Settings of commands that call a service; validated, unlike `CallerSettings`."""

from __future__ import annotations

from pydantic import Field, PositiveInt, model_validator

from headrace.console.access.caller import LARGEST_ANSWER_BYTES, service_at, token_of
from mirror.errors import InvalidRequest
from mirror.model.bounds import shown
from mirror.options import Settings


def _check_address(address: str) -> None:
    if "," in address:
        raise ValueError(f"{shown(address)} contains several addresses: write each as an item of the list")
    try:
        service_at("addresses", address)
    except InvalidRequest as error:
        raise ValueError(error.message) from error


class ClientSettings(Settings):
    """Settings of commands that call a service."""

    addresses: list[str] = Field(default=[])
    """Instances that commands call, as `host:port` or `https://host:port`, in the order of preference. If
    empty, the address in `api`. If none of them responds and `[zookeeper]` is set, commands look up live
    instances there."""
    token_file: str = ""
    """File with the token. The variable HEADRACE_TOKEN takes precedence."""
    ca_file: str = ""
    """CA certificates (PEM) to verify the certificate of the service; if empty, the CA certificates of the
    machine."""
    certificate_file: str = ""
    """Client certificate (PEM) presented to the service."""
    key_file: str = ""
    """Private key (PEM) of `certificate_file`; empty if `certificate_file` also contains the key."""
    audit_key_file: str = ""
    """Ed25519 private key (PEM, without a password) with which `headrace audit certify` and `headrace dr
    report` sign."""
    largest_answer_bytes: PositiveInt = LARGEST_ANSWER_BYTES
    """Maximum size of a response of the service in bytes."""

    @model_validator(mode="after")
    def _consistent(self) -> ClientSettings:
        for address in self.addresses:
            _check_address(address)
        if self.key_file and not self.certificate_file:
            raise ValueError("key_file requires certificate_file")
        return self

    def token(self) -> str:
        """Return the access token, empty if there is none. Raises ConfigError without the token in its
        message."""
        return token_of(self.token_file)
