"""How commands reach a service, and what they say of a datastream."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.console.terminal import console, error_console, print_json

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.console.access.caller import ServiceAccess
    from headrace.console.client import RestClient

_COMPLETED: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*")
"""Names that a shell takes as they are: any other could be a command of somebody else's."""
_COMPLETION_SECONDS: Final = 1.0


def complete_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of datastreams that begin so, for the shell; none where no service answers soon."""
    from headrace.console.resources import DATASTREAMS
    from mirror.errors import HeadraceError

    try:
        client = connect(ctx.params.get("at") or "", ctx.params.get("config"), _COMPLETION_SECONDS)
        names = [str(one["name"]) for one in client.get(DATASTREAMS)]
    except HeadraceError:
        return []
    return [name for name in names if name.startswith(incomplete) and _COMPLETED.fullmatch(name)]


NameArgument = Annotated[str, typer.Argument(help="The datastream's name.", autocompletion=complete_name)]
ReasonOption = Annotated[str, typer.Option(help="Why; it is kept and shown.", show_default=False)]
WhoOption = Annotated[str, typer.Option("--by", help="Who asks; it is kept and shown.", show_default=False)]


def connect(at: str, config: Path | None, timeout_seconds: float = 30.0) -> RestClient:
    """A client for the instance that the options or the settings name. Raises InvalidRequest for an address
    that is none."""
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # its command line costs the most
    from headrace.console.access.quick import quick_access
    from headrace.console.client import RestClient

    access = quick_access(config, at) or _checked_access(config, at)
    ages: list[int] = []

    def note_age(seconds: int) -> None:
        if not ages:  # a command that asks again and again says it once
            error_console().print(f"as of {seconds} s ago: ZooKeeper does not answer")
        ages.append(seconds)

    return RestClient(
        access.addresses, timeout_seconds, note_age, keeps_connection=False, settings=access.caller
    )


def _checked_access(config: Path | None, at: str) -> ServiceAccess:
    """Raises ConfigError that names every setting that is wrong."""
    from headrace.console.access.caller import ServiceAccess
    from headrace.settings import load_settings

    settings = load_settings(config)
    return ServiceAccess(settings.service_address(at), settings.commands)


def show_outcome(answer: dict[str, Any], *, as_json: bool, dry_run: bool) -> None:
    """The datastream as it is then, or what would be done with it."""
    from headrace.console.datastreams.changes import print_update_plan

    if dry_run and not as_json:
        print_update_plan(answer)
    else:
        show(answer, as_json)


def show(datastream: dict[str, Any], as_json: bool) -> None:
    """Name and status, or all of it for a program."""
    if as_json:
        print_json(datastream)
    else:
        console().print(f"{datastream['name']}: {datastream['status']}")
