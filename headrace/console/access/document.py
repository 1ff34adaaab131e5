"""Reads the settings file without validating it."""

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
"""Environment variable with an offset that is added to every default port, like `headrace-dev stack up
--port-offset`."""
NOT_SETTINGS: Final = frozenset(
    {CONFIG_VARIABLE, OFFSET_VARIABLE, TOKEN_VARIABLE, "HEADRACE_COMPILED", "HEADRACE_HOME"}
)
"""Environment variables that start with the prefix of settings but do not set a key."""


def config_file(path: Path | None = None) -> Path | None:
    """Return the path of the settings file, or None.

    The path is `path`, the value of `HEADRACE_CONFIG`, or `./headrace.toml` if it exists.
    """
    if path is not None:
        return path
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def read_document(path: Path | None) -> dict[str, Any]:
    """Parse the settings file without validation. The result is empty if there is no file. Raises
    ConfigError."""
    file = config_file(path)
    if file is None:
        return {}
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except FileNotFoundError as error:
        raise ConfigError(f"configuration file not found: {file}") from error
    except OSError as error:
        raise ConfigError(f"cannot read configuration file {file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # invalid TOML or UTF-8, or too long a number
        raise ConfigError(f"cannot parse {file} as TOML: {error}") from error


def port_offset() -> int:
    """Return the offset that an environment variable adds to all default ports. Raises ConfigError."""
    text = os.environ.get(OFFSET_VARIABLE, "")
    try:
        return int(text or 0)
    except ValueError as error:
        raise ConfigError(f"invalid {OFFSET_VARIABLE} {text!r}: not an integer") from error
