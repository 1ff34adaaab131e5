"""Loads plug-ins through the entry points of installed packages.

A plug-in is a function that takes its options (a mapping of names to strings) and returns a load provider or
a placement strategy. Built-in names are reserved. If a plug-in cannot be created, the service does not start:
a ConfigError names the plug-in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mirror.errors import ConfigError
from mirror.model.reasons import legible, named
from mirror.ports import LoadProvider, Planner
from mirror.wording import counted

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True)
class PlugInKind:
    """A kind of plug-in, such as load providers.

    `group`: entry point group. `what`: name in messages. `setting`: key that selects a plug-in of this kind.
    `method`: required method. `own`: names of the built-in plug-ins.
    """

    group: str
    what: str
    setting: str
    method: str
    own: Collection[str]


WHAT_IT_MAY_ANSWER: Final = "docs/plug-ins.md lists the valid values"
"""Advice if the result of a plug-in is rejected."""
OWN_PROVIDERS: Final = ("self", "pinot", "none")
OWN_STRATEGIES: Final = ("auto", "assigner", "simple")
LOAD_PROVIDERS: Final = PlugInKind(
    "headrace.load_providers", "load provider", "mirror.leader.load_provider", "loads", OWN_PROVIDERS
)
PLACEMENT_STRATEGIES: Final = PlugInKind(
    "headrace.placement_strategies",
    "placement strategy",
    "mirror.leader.placement_strategy",
    "plan",
    OWN_STRATEGIES,
)


def load_provider(name: str, options: Mapping[str, str]) -> LoadProvider:
    """Create a load provider of another package. Raises ConfigError."""
    found: LoadProvider = _load(LOAD_PROVIDERS, name, options)
    return found


def placement_strategy(name: str, options: Mapping[str, str]) -> Planner:
    """Create a placement strategy of another package. Raises ConfigError."""
    found: Planner = _load(PLACEMENT_STRATEGIES, name, options)
    return found


def provider_names() -> tuple[str, ...]:
    """Return the names of all load providers, built-in ones first. Does not import the packages."""
    return _known(LOAD_PROVIDERS, _entries(LOAD_PROVIDERS))


def strategy_names() -> tuple[str, ...]:
    """Return the names of all placement strategies, built-in ones first. Does not import the packages."""
    return _known(PLACEMENT_STRATEGIES, _entries(PLACEMENT_STRATEGIES))


def _load(kind: PlugInKind, name: str, options: Mapping[str, str]) -> Any:
    entry = _found(kind, name)
    subject = f"{kind.what} {name!r} of {entry.value}"
    try:
        make: Callable[[Mapping[str, str]], Any] = entry.load()
    except BaseException as error:  # such as SystemExit
        raise ConfigError(
            f"cannot import {subject}: {legible(named(error))}",
            advice=f"check its package, or choose another {kind.setting}",
        ) from error
    if not callable(make):
        raise ConfigError(
            f"{subject} is {_a(make)}, not a function",
            advice="the entry point must name a function that takes the options and returns the plug-in",
        )
    try:
        made = make(dict(options))
        method = getattr(made, kind.method, None)
    except ConfigError:
        raise
    except BaseException as error:
        raise ConfigError(
            f"cannot create {subject}: {legible(named(error))}",
            advice=f"check {kind.setting}_options and its package",
        ) from error
    if not callable(method):
        raise ConfigError(
            f"{subject} is {_a(made)}, which lacks the method {kind.method}",
            advice="docs/plug-ins.md describes the required methods",
        )
    return made


def _found(kind: PlugInKind, name: str) -> EntryPoint:
    every = _entries(kind)
    mine = {entry.value: entry for entry in every if entry.name == name}
    if not mine:
        known = ", ".join(_known(kind, every))
        raise ConfigError(f"unknown {kind.what} {name!r} ({kind.setting})", advice=f"known: {known}")
    if len(mine) > 1:
        raise ConfigError(
            f"{counted(len(mine), 'package')} provide {kind.what} {name!r}: {', '.join(sorted(mine))}",
            advice="remove all but one",
        )
    return mine.popitem()[1]


def _entries(kind: PlugInKind) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # imports the e-mail package: megabytes

    return tuple(entry_points(group=kind.group))


def _known(kind: PlugInKind, every: Collection[EntryPoint]) -> tuple[str, ...]:
    return *kind.own, *sorted({entry.name for entry in every} - {*kind.own})


def _a(value: object) -> str:
    return f"an object of type {type(value).__name__}"
