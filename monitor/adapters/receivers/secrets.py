"""Secrets by reference: read where they are, whenever they are needed, and never kept."""

from __future__ import annotations

import os
from pathlib import Path

from mirror.errors import Refused


def secret_from(file: str, variable: str) -> str:
    """The text of the file or of the variable without white space around it; empty where neither is named.
    Raises Refused, without the text, where there is none."""
    if file:
        try:
            found = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"{file} cannot be read") from error
    elif variable:
        found = os.environ.get(variable, "").strip()
    else:
        return ""
    if not found or not found.isprintable():
        raise Refused(f"{file or f'the variable {variable}'} has nothing in it that can be used")
    return found
