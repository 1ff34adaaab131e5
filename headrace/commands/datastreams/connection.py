"""Client of a service for commands, and output of a datastream."""

from __future__ import annotations

import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.console.terminal import console, error_console, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.console.access.caller import ServiceAccess
    from headrace.console.client import RestClient

_COMPLETED: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*")
"""Matches names without characters that a shell interprets. Only these names are completed, because others
could inject a command."""
_COMPLETION_SECONDS: Final = 1.0


def complete_name(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of datastreams that start with `incomplete`; empty if no service responds in time."""
    from headrace.console.resources import DATASTREAMS
    from mirror.errors import HeadraceError

    try:
        at, config = ctx.params.get("at") or "", ctx.params.get("config")
        client = connect(at, config, _COMPLETION_SECONDS, looks_up=False)
        names = [str(datastream["name"]) for datastream in client.get(DATASTREAMS)]
    except HeadraceError:
        return []
    return [name for name in names if name.startswith(incomplete) and _COMPLETED.fullmatch(name)]


NameArgument = Annotated[str, typer.Argument(help="Name of the datastream.", autocompletion=complete_name)]


def connect(
    at: str, config: Path | None, timeout_seconds: float = 30.0, *, looks_up: bool = True
) -> RestClient:
    """Return a client of the instances at `at` or, if it is empty, at the configured addresses.

    `looks_up`: whether the client reads the addresses of live instances from the coordination store if no
    configured address responds. Raises InvalidRequest for an invalid address."""
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # slow import of httpx's CLI
    from headrace.console.access.quick import quick_access
    from headrace.console.client import RestClient

    access = quick_access(config, at) or _checked_access(config, at)
    ages: list[int] = []

    def note_age(seconds: int) -> None:
        if not ages:  # report only once while polling
            error_console().print(f"data is {seconds} s old: the coordination store does not respond")
        ages.append(seconds)

    return RestClient(
        access.addresses,
        timeout_seconds,
        note_age,
        keeps_connection=False,
        settings=access.caller,
        find_more=partial(_live_addresses, config) if looks_up and not at else tuple,
    )


def _live_addresses(config: Path | None) -> Sequence[str]:
    """Return the addresses of the live instances in the coordination store."""
    from headrace.console.access.caller import services_at
    from headrace.coordination.client import viewed
    from headrace.settings import load_settings
    from mirror.coordination.stores.membership import Membership
    from mirror.errors import HeadraceError

    settings = load_settings(config)
    try:
        with viewed(settings, "a look-up of instances") as nodes:
            found = [instance.rest_address for instance in Membership(nodes).live() if instance.rest_address]
    except HeadraceError as error:
        error_console().print(f"cannot read the live instances: {error}")
        return ()
    is_tls = settings.service_address().startswith("https://")
    return services_at(",".join(found), is_tls=is_tls).split(",") if found else ()


def _checked_access(config: Path | None, at: str) -> ServiceAccess:
    """Return the addresses and credentials from the validated settings. Raises ConfigError with all invalid
    settings."""
    from headrace.console.access.caller import ServiceAccess
    from headrace.settings import load_settings

    settings = load_settings(config)
    return ServiceAccess(settings.service_address(at), settings.commands)


def show_outcome(answer: dict[str, Any], *, as_json: bool, dry_run: bool) -> None:
    """Print the updated datastream, or the changes of a dry run."""
    from headrace.console.datastreams.changes import print_update_plan

    if dry_run and not as_json:
        print_update_plan(answer)
    else:
        show(answer, as_json)


def show(datastream: dict[str, Any], as_json: bool) -> None:
    """Print name and status, or the whole document as JSON."""
    if as_json:
        print_json(datastream)
    else:
        console().print(f"{datastream['name']}: {datastream['status']}")
