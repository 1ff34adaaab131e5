"""Commands whose options are declared in groups.

A command takes a group of options as one parameter, whose type is a subclass of `OptionGroup`. `flattened`
replaces this parameter by the options of the group; `CommandGroup` does so for all of its commands.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from typer._click.core import Context

Command = TypeVar("Command", bound=Callable[..., Any])


class OptionGroup:
    """Base class for a group of command-line options that several commands share.

    Groups are frozen dataclasses. Each field has the type and the default of an option.
    """


def flattened(command: Command) -> Command:
    """Return a command with the options in its option groups as separate options, as typer requires."""
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


class PlainCommand(TyperCommand):
    """A command whose errors about option values are worded like Headrace's other errors."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raises typer.BadParameter, without the phrases of pydantic."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            from pydantic import ValidationError

            from mirror.options import validation_text

            if isinstance(error.__cause__, ValidationError):
                error.message = validation_text(error.__cause__.errors()[0])
            raise


class CommandGroup(typer.Typer):
    """A group of commands whose functions may have option groups as parameters."""

    def command(self, *names: Any, **settings: Any) -> Callable[[Command], Command]:
        """Return a decorator that adds a command. Parameters as in `typer.Typer`."""
        add = super().command(*names, **{"cls": PlainCommand, **settings})

        def decorate(command: Command) -> Command:
            add(flattened(command))
            return command

        return decorate
