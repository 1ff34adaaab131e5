"""What an operator can set about calls to a service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from pydantic import PositiveInt, model_validator

from mirror.errors import ConfigError
from mirror.options import Settings

TOKEN_VARIABLE: Final = "HEADRACE_TOKEN"  # noqa: S105 - its name
"""The token itself; a file is safer, an option would be in every list of processes."""


class ClientSettings(Settings):
    """How commands call a service that asks who calls."""

    token_file: str = ""
    """A file with the token; the variable HEADRACE_TOKEN wins over it."""
    ca_file: str = ""
    """Authorities (PEM) of the service's certificate; empty: the machine's."""
    certificate_file: str = ""
    """The certificate that is shown to the service (PEM)."""
    key_file: str = ""
    """Key of `certificate_file` (PEM); empty: it is in the same file."""
    largest_answer_bytes: PositiveInt = 512 * 1024 * 1024
    """Size of the largest response of a service that commands read."""

    @model_validator(mode="after")
    def _consistent(self) -> ClientSettings:
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
