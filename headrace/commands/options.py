"""Options that several commands share, alone and as groups."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from headrace.console.option_groups import OptionGroup

if TYPE_CHECKING:
    from headrace.console.client import RestClient

E = TypeVar("E", bound=StrEnum)


def choice(kind: type[E], option: str, value: str) -> E:
    """Parse the value of an option with fixed choices. Raises InvalidRequest with the choices."""
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


ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="Settings file (TOML).", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AtOption = Annotated[
    str, typer.Option("--at", help="Instances to call, host:port[,...] (default: from the settings).")
]
ReasonOption = Annotated[
    str, typer.Option(help="Reason, recorded and displayed with the action.", show_default=False)
]
WhoOption = Annotated[
    str, typer.Option("--by", help="Requester, recorded and displayed with the action.", show_default=False)
]


@dataclass(frozen=True)
class ServiceOptions(OptionGroup):
    """The service to call."""

    at: AtOption = ""
    config: ConfigOption = None

    def connect(self, timeout_seconds: float = 30.0) -> RestClient:
        """Return a client of the service. Raises the errors of `connect`."""
        from headrace.commands.datastreams.connection import connect

        return connect(self.at, self.config, timeout_seconds)


@dataclass(frozen=True)
class CallOptions(ServiceOptions):
    """The service to call, and the output format."""

    as_json: JsonOption = False

    def printed_json(self, document: object) -> bool:
        """Print the document if --json is given; return whether it is."""
        from headrace.console.terminal import print_json

        if self.as_json:
            print_json(document)
        return self.as_json


@dataclass(frozen=True)
class CauseOptions(OptionGroup):
    """Reason and requester of an action."""

    reason: ReasonOption = ""
    requested_by: WhoOption = ""

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of a request."""
        return {"reason": self.reason, "requested_by": self.requested_by}

    @property
    def given(self) -> dict[str, Any]:
        """Fields of a request in which the service names the requester if the caller does not."""
        return {"reason": self.reason, **({"requested_by": self.requested_by} if self.requested_by else {})}
