"""The settings file, unchecked."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Final

from headrace.console.access.caller import TOKEN_VARIABLE
from mirror.errors import ConfigError

PREFIX: Final = "HEADRACE_"
CONFIG_VARIABLE: Final = "HEADRACE_CONFIG"
DEFAULT_FILE: Final = Path("headrace.toml")
OFFSET_VARIABLE: Final = "HEADRACE_PORT_OFFSET"
"""A number that is added to every port of the defaults, as `headrace stack up --port-offset` adds it."""
NOT_SETTINGS: Final = frozenset({CONFIG_VARIABLE, OFFSET_VARIABLE, "HEADRACE_HOME", TOKEN_VARIABLE})
"""Variables with the prefix that set no key."""


def config_file(path: Path | None = None) -> Path | None:
    """The file that counts: the given one, `HEADRACE_CONFIG`, `./headrace.toml` if it is there."""
    if path is not None:
        return path
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def read_document(path: Path | None) -> dict[str, Any]:
    """Return the content of the settings file, unchecked; empty without a file. Raises ConfigError."""
    file = config_file(path)
    if file is None:
        return {}
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except FileNotFoundError as error:
        raise ConfigError(f"there is no configuration file {file}") from error
    except OSError as error:
        raise ConfigError(f"the configuration file {file} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of numbers that are too long
        raise ConfigError(f"{file} is not TOML: {error}") from error


def port_offset() -> int:
    """What is added to the ports of the defaults. Raises ConfigError."""
    text = os.environ.get(OFFSET_VARIABLE, "")
    try:
        return int(text or 0)
    except ValueError as error:
        raise ConfigError(f"{OFFSET_VARIABLE}: {text!r} is no whole number") from error
