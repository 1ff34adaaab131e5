"""Options that several commands share, alone and as groups.

A command takes a group of options as one parameter, whose type is a subclass of `OptionGroup`. `flattened`
replaces this parameter by the options of the group; `CommandGroup` does so for all of its commands.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

if TYPE_CHECKING:
    from headrace.console.client import RestClient

E = TypeVar("E", bound=StrEnum)
Command = TypeVar("Command", bound=Callable[..., Any])


class OptionGroup:
    """Base of groups of options: frozen dataclasses whose fields have the type and the default of an option
    each."""


def flattened(command: Command) -> Command:
    """Return a command whose groups of options are separate options. The command receives the groups."""
    hints = get_type_hints(command, include_extras=True)
    kinds: dict[str, Any] = {
        name: kind for name, kind in hints.items() if inspect.isclass(kind) and issubclass(kind, OptionGroup)
    }
    parameters = [
        flat
        for name, parameter in inspect.signature(command).parameters.items()
        for flat in (
            _parameters_of(kinds[name], parameter)
            if name in kinds
            else [parameter.replace(annotation=hints[name])]
        )
    ]

    @wraps(command)
    def called(**values: Any) -> Any:
        groups = {
            name: kind(**{option.name: values.pop(option.name) for option in fields(kind)})
            for name, kind in kinds.items()
        }
        return command(**values, **groups)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called  # type: ignore[return-value]


def _parameters_of(kind: Any, parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    types = get_type_hints(kind, include_extras=True)
    for option in fields(kind):
        yield parameter.replace(name=option.name, default=option.default, annotation=types[option.name])


class CommandGroup(typer.Typer):
    """A group of commands that may take groups of options."""

    def command(self, *names: Any, **settings: Any) -> Callable[[Command], Command]:
        """Return a decorator that adds a command. Parameters as in `typer.Typer`."""
        add = super().command(*names, **settings)

        def decorate(command: Command) -> Command:
            add(flattened(command))
            return command

        return decorate


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
