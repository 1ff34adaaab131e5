"""Client for commands that call a service, and their common options: service, output format and reason."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands.options import AtOption, ConfigOption, JsonOption
from headrace.console.option_groups import OptionGroup
from headrace.console.terminal import error_console, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.console.access.caller import ServiceAccess
    from headrace.console.client import RestClient

ReasonOption = Annotated[str, typer.Option(help="Reason, recorded and displayed with the action.")]
WhoOption = Annotated[str, typer.Option("--by", help="Requester, recorded and displayed with the action.")]


def connect(
    at: str, config: Path | None, timeout_seconds: float = 30.0, *, looks_up: bool = True
) -> RestClient:
    """Return a client of the instances at `at`, by default at the configured addresses.

    `looks_up`: if no configured address responds, read the addresses of live instances from the coordination
    store. Raises InvalidRequest for an invalid address.
    """
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
    """Return addresses and credentials from the validated settings. Raises ConfigError with all invalid
    settings."""
    from headrace.console.access.caller import ServiceAccess
    from headrace.settings import load_settings

    settings = load_settings(config)
    return ServiceAccess(settings.service_address(at), settings.commands)


@dataclass(frozen=True)
class ServiceOptions(OptionGroup):
    """Options that select the service to call."""

    at: AtOption = ""
    config: ConfigOption = None

    def connect(self, timeout_seconds: float = 30.0) -> RestClient:
        """Return a client of the selected service. Raises the errors of `connect`."""
        return connect(self.at, self.config, timeout_seconds)


@dataclass(frozen=True)
class CallOptions(ServiceOptions):
    """Options that select the service to call, and the output format."""

    as_json: JsonOption = False

    def printed_json(self, document: object) -> bool:
        """Print the document as JSON and return True if --json is given; otherwise only return False."""
        if self.as_json:
            print_json(document)
        return self.as_json


@dataclass(frozen=True)
class CauseOptions(OptionGroup):
    """Options for the reason and the requester of an action."""

    reason: ReasonOption = ""
    requested_by: WhoOption = ""

    @property
    def fields(self) -> dict[str, Any]:
        """Request fields with the reason and the requester."""
        return {"reason": self.reason, "requested_by": self.requested_by}

    @property
    def given_fields(self) -> dict[str, Any]:
        """Request fields with the reason and, if given, the requester. The service adds a missing
        requester."""
        return {"reason": self.reason, **({"requested_by": self.requested_by} if self.requested_by else {})}
