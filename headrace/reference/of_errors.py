"""The reference of every error, generated from the classes, with what a person can do about each."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Final

import api.brooklin.refusals
import api.errors
import api.restli
import mirror.errors
import mirror.instance.background_calls
import mirror.worker.process
import monitor.alerts.deliveries.ports
import stack.errors
from headrace.errors import EXIT_FAILED, EXIT_USAGE
from headrace.reference.what_to_do import WHAT_TO_DO
from mirror.errors import ConfigError, HeadraceError, InvalidRequest

_INTRODUCTION: Final = f"""\
# Errors

Every error that Headrace raises on purpose, and what to do about it. This page is generated: `headrace
config reference --errors`.

The name of an error is `kind` in the body of an answer of `/v1` (`application/problem+json`, RFC 9457),
beside `detail` (what happened), `advice` (what to do, where that is known for this very case) and
`request_id`, by which the log of the instance has the rest. A command prints `detail: advice` on stderr.
A lane or a datastream that has met an error shows it as its `reason` in `headrace lanes` and `headrace
datastream get`, and goes on trying unless the table says that it must stop.

- **status**: the HTTP status where such an error is the answer to a call. Most errors of copying never
  are. Brooklin's paths answer in Rest.li's envelope, with another status where the table says so.
- **exit**: the exit status of a command that ends by it: {EXIT_USAGE} where what was asked for is wrong,
  {EXIT_FAILED} where something failed.
- **again**: whether the same call may succeed later without a change. Such answers have `Retry-After`
  where the status is 503 or 429.
- **stops**: whether what raised it must stop: a command, a lane, or all tasks of an instance.
"""
_SECTIONS: Final[Mapping[str, tuple[ModuleType, ...]]] = {
    "Of the service, clusters and ZooKeeper": (
        mirror.errors,
        mirror.instance.background_calls,
        mirror.worker.process,
    ),
    "Of the REST interface": (api.errors, api.restli, api.brooklin.refusals),
    "Of receivers of alerts": (monitor.alerts.deliveries.ports,),
    "Of the servers that `headrace stack` runs": (stack.errors,),
}
_IN_BROOKLINS_WORDS: Final = (api.brooklin.refusals.RoutingRefusal, api.brooklin.refusals.BrooklinRefusal)
"""They are raised with the status that Brooklin's server would answer."""

Kind = type[HeadraceError] | type[stack.errors.StackError]


def errors_reference() -> str:
    """Markdown: a table for each place where errors come from."""
    parts = [_INTRODUCTION]
    for title, modules in _SECTIONS.items():
        rows = [_row(kind) for module in modules for kind in kinds_of(module)]
        head = (
            "| kind | a kind of | status | exit | again | stops | meaning | what to do |\n" + "|---" * 8 + "|"
        )
        parts.append(f"## {title}\n\n{head}\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def every_kind() -> list[Kind]:
    """Every error of the page."""
    return [kind for modules in _SECTIONS.values() for module in modules for kind in kinds_of(module)]


def kinds_of(module: ModuleType) -> Iterator[Kind]:
    """The errors that a module defines, in its order."""
    for found in vars(module).values():
        is_own = inspect.isclass(found) and found.__module__ == module.__name__
        if is_own and issubclass(found, HeadraceError | stack.errors.StackError):
            yield found


def _row(kind: Kind) -> str:
    parent = kind.__bases__[0].__name__
    ours = issubclass(kind, HeadraceError)
    cells = [
        f"`{kind.__name__}`",
        f"`{parent}`" if parent != "Exception" else "",
        _status(kind) if issubclass(kind, HeadraceError) else "",
        str(EXIT_USAGE if issubclass(kind, ConfigError | InvalidRequest) else EXIT_FAILED),
        "yes" if ours and kind.retriable else "",  # type: ignore[union-attr]
        "yes" if ours and kind.fatal else "",  # type: ignore[union-attr]
        " ".join((kind.__doc__ or "").split()),
        WHAT_TO_DO[kind.__name__],
    ]
    return f"| {' | '.join(cells)} |"


def _status(kind: type[HeadraceError]) -> str:
    """Like `api.errors.status_of`, of a class."""
    if kind in _IN_BROOKLINS_WORDS:
        return "Brooklin's"
    status = _nearest(kind, api.errors.STATUS)
    theirs = _nearest(kind, api.brooklin.refusals.STATUS) or status
    return f"{status}" if theirs == status else f"{status}; Brooklin's paths: {theirs}"


def _nearest(kind: type[HeadraceError], table: Mapping[type[HeadraceError], int]) -> int:
    """0: there is none."""
    return next((int(table[one]) for one in kind.__mro__ if one in table), 0)
