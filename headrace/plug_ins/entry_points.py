"""Finds plug-ins by the entry points of installed packages.

A plug-in is a function that takes its options (text by name) and returns the object. Names of those that are
part of Headrace cannot be taken. What is wrong with one is said by name, and is a ConfigError: the service
does not start with another one in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mirror.errors import ConfigError, legible, named
from mirror.ports import LoadProvider, Planner
from mirror.wording import counted

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True)
class PlugInKind:
    """`what`: one in words; `setting`: where it is chosen; `method`: what it has to have; `own`: those that
    are part of Headrace."""

    group: str
    what: str
    setting: str
    method: str
    own: Collection[str]


WHAT_IT_MAY_ANSWER: Final = "docs/plug-ins.md says what it may answer"
"""Advice where the answer of a plug-in is refused."""
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
    """The provider of that name from another package. Raises ConfigError."""
    found: LoadProvider = _load(LOAD_PROVIDERS, name, options)
    return found


def placement_strategy(name: str, options: Mapping[str, str]) -> Planner:
    """The strategy of that name from another package. Raises ConfigError."""
    found: Planner = _load(PLACEMENT_STRATEGIES, name, options)
    return found


def provider_names() -> tuple[str, ...]:
    """Headrace's own load providers, then those of other packages, sorted; of the latter nothing is
    loaded."""
    return _known(LOAD_PROVIDERS, _entries(LOAD_PROVIDERS))


def strategy_names() -> tuple[str, ...]:
    """Headrace's own placement strategies, then those of other packages, sorted; of the latter nothing is
    loaded."""
    return _known(PLACEMENT_STRATEGIES, _entries(PLACEMENT_STRATEGIES))


def _load(kind: PlugInKind, name: str, options: Mapping[str, str]) -> Any:
    entry = _found(kind, name)
    what = f"the {kind.what} {name!r} of {entry.value}"
    try:
        make: Callable[[Mapping[str, str]], Any] = entry.load()
    except BaseException as error:  # such as SystemExit
        raise ConfigError(
            f"{what} cannot be imported: {legible(named(error))}",
            advice=f"look at its package, or choose another {kind.setting}",
        ) from error
    if not callable(make):
        raise ConfigError(
            f"{what} is {_a(make)}, not a function",
            advice="its entry point names a function that takes the options and returns the object",
        )
    try:
        made = make(dict(options))
        method = getattr(made, kind.method, None)
    except ConfigError:
        raise
    except BaseException as error:
        raise ConfigError(
            f"{what} cannot be made: {legible(named(error))}",
            advice=f"look at {kind.setting}_options and at its package",
        ) from error
    if not callable(method):
        raise ConfigError(
            f"{what} is {_a(made)} without a method {kind.method}",
            advice="docs/plug-ins.md says what it has to have",
        )
    return made


def _found(kind: PlugInKind, name: str) -> EntryPoint:
    every = _entries(kind)
    mine = {one.value: one for one in every if one.name == name}
    if not mine:
        known = ", ".join(_known(kind, every))
        raise ConfigError(f"there is no {kind.what} {name!r} ({kind.setting})", advice=f"there are {known}")
    if len(mine) > 1:
        raise ConfigError(
            f"{counted(len(mine), 'package')} bring a {kind.what} {name!r}: {', '.join(sorted(mine))}",
            advice="remove all but one",
        )
    return mine.popitem()[1]


def _entries(kind: PlugInKind) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # it loads the e-mail package: megabytes that few need

    return tuple(entry_points(group=kind.group))


def _known(kind: PlugInKind, every: Collection[EntryPoint]) -> tuple[str, ...]:
    return *kind.own, *sorted({one.name for one in every} - {*kind.own})


def _a(value: object) -> str:
    return f"an object of the type {type(value).__name__}"
