"""Command-line options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

E = TypeVar("E", bound=StrEnum)


def choice(kind: type[E], option: str, value: str) -> E:
    """Parse an option that accepts one of several values. Raises InvalidRequest."""
    from mirror.errors import InvalidRequest

    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(member.value for member in kind)
        raise InvalidRequest(
            f"invalid value of {option}: {value}", advice=f"choose one of {choices}"
        ) from None


class Output(StrEnum):
    """Output format of a list."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class DocumentOutput(StrEnum):
    """Output format of one definition."""

    JSON = "json"
    YAML = "yaml"


ConfigOption = Annotated[Path | None, typer.Option("--config", "-c", help="Settings file (TOML).")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AtOption = Annotated[
    str, typer.Option("--at", help="Instances to call, host:port[,...] (default: from the settings).")
]
