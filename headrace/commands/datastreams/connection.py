"""How commands reach a service, and what they say of a datastream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.console.terminal import console, print_json

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.console.client import RestClient

NameArgument = Annotated[str, typer.Argument(help="The datastream's name.")]
ReasonOption = Annotated[str, typer.Option(help="Why; it is kept and shown.", show_default=False)]
WhoOption = Annotated[str, typer.Option("--by", help="Who asks; it is kept and shown.", show_default=False)]


def connect(at: str, config: Path | None) -> RestClient:
    """A client for the instance that the options or the settings name. Raises InvalidRequest for an address
    that is none."""
    from headrace.console.client import RestClient
    from headrace.settings import load_settings
    from mirror.model.clusters import bootstrap_servers

    if not at:
        settings = load_settings(config)
        at = f"{settings.api.host}:{settings.api.port}"
    bootstrap_servers("--at", at)
    return RestClient(at)


def show(datastream: dict[str, Any], as_json: bool) -> None:
    """Name and status, or all of it for a program."""
    if as_json:
        print_json(datastream)
    else:
        console().print(f"{datastream['name']}: {datastream['status']}")
