"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

E = TypeVar("E", bound=StrEnum)


def choice(kind: type[E], option: str, value: str) -> E:
    """The value of an option that has a few. Raises InvalidRequest that lists them."""
    from mirror.errors import InvalidRequest

    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(member.value for member in kind)
        raise InvalidRequest(f"{option} cannot be {value}", advice=f"choose {choices}") from None


class Output(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class DocumentOutput(StrEnum):
    """How one definition is printed."""

    JSON = "json"
    YAML = "yaml"


ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="TOML file with the settings.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
AtOption = Annotated[
    str, typer.Option("--at", help="host:port of an instance, or several with commas; default: the settings.")
]
