"""Reads secrets from the files or environment variables that settings name; never stores them."""

from __future__ import annotations

import os
from pathlib import Path

from mirror.errors import Refused


def secret_from(file: str, variable: str) -> str:
    """Return the stripped content of the file or environment variable; empty if neither is configured. Raises
    Refused for a missing, unreadable or empty secret, without its content."""
    if file:
        try:
            found = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"cannot read {file}") from error
    elif variable:
        found = os.environ.get(variable, "").strip()
    else:
        return ""
    if not found or not found.isprintable():
        raise Refused(f"{file or f'the variable {variable}'} is empty or contains unprintable characters")
    return found
