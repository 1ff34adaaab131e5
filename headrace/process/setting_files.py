"""Checks the files that the settings name, for `headrace config check`."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, SecretStr

from headrace.process.tls import file_problem
from headrace.settings import HeadraceSettings, all_of
from mirror.errors import ConfigError

_ADVICE: Final = "correct the path or the file; relative paths start at the working directory"


def check_files(settings: HeadraceSettings) -> None:
    """Raise ConfigError with every file of the settings that cannot be read, or contains no valid certificate
    or key."""
    wrong = [ConfigError(sentence) for sentence in _problems(settings)]
    if wrong:
        raise all_of(wrong, _ADVICE)


def _problems(values: Any, key: str = "") -> Iterator[str]:
    """Yield a sentence for each file named in a part of the settings that is unusable. `key`: key of that
    part."""
    pairs = values.items() if isinstance(values, Mapping) else values
    for name, value in pairs if isinstance(values, Mapping | BaseModel) else ():
        place = f"{key}.{name}" if key else name
        if isinstance(values, BaseModel) and isinstance(value, str) and name.endswith("_file"):
            try:
                if value:
                    _read(values, name, value)
            except (OSError, ValueError) as error:
                yield f"{place}: cannot read {value}: {file_problem(error)}"
        else:
            yield from _problems(value, place)


def _read(values: BaseModel, name: str, file: str) -> None:
    """Open a file, and load it if it is a certificate. Raises OSError, ValueError."""
    with open(file, "rb") as opened:
        opened.read(1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if name.endswith("ca_file"):
        context.load_verify_locations(file)
    elif name == "certificate_file":
        key_file: str = getattr(values, "key_file", "")
        password: SecretStr = getattr(values, "key_password", SecretStr(""))
        if not key_file or os.access(key_file, os.R_OK):  # an unreadable key has its own sentence
            context.load_cert_chain(file, key_file or None, password.get_secret_value)
