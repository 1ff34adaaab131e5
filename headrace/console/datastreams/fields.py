"""Options for the fields of a datastream: one table for `headrace datastream create` and `update`.

A command receives the options as `**options`. `with_fields` sets the signature from which typer generates the
command line. Options that are not given are None, so that the service's defaults apply.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, Final, TypeVar

import typer

from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.datastreams.objectives import read_objective
from mirror.model.datastreams.options import FIXED_FIELDS, DatastreamOption, options_of
from mirror.model.datastreams.start_positions import positions_of_options
from mirror.model.documents import merged

Command = TypeVar("Command", bound=Callable[..., None])


@dataclass(frozen=True)
class FieldOption:
    """A field of a datastream as a command-line option.

    `place`: path in a definition. `at_creation`: default of `create`. `required`: whether `create` requires
    the option, in which case `update` cannot unset the field. `read`: converts the value of the option to the
    value in a definition. `is_former`: whether the option is deprecated and hidden in the help.
    """

    name: str
    place: tuple[str, ...]
    kind: Any
    help: str
    at_creation: str | None = None
    required: bool = False
    least: int | None = None
    read: Callable[[Any], Any] | None = None
    is_former: bool = False

    @property
    def may_change(self) -> bool:
        """Return whether `headrace datastream update` has the option."""
        return self.place not in FIXED_FIELDS

    @property
    def flag(self) -> str:
        """Name of the option without leading dashes."""
        return self.name.replace("_", "-")

    def parameter(self, *, creates: bool) -> inspect.Parameter:
        """Return the function parameter from which typer generates the option."""
        is_given = creates and (self.required or self.at_creation is not None)
        option = typer.Option(help=self.help, min=self.least, show_default=is_given, hidden=self.is_former)
        kind = self.kind if is_given else self.kind | None
        default = None
        if is_given:
            default = inspect.Parameter.empty if self.required else self.at_creation
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
        )


def _objectives(lines: Sequence[str]) -> list[dict[str, Any]]:
    return [asdict(read_objective(line)) for line in lines]


def _positions(lines: Sequence[str]) -> dict[str, dict[str, int]]:
    return positions_of_options("--start-position", lines).document


def _of(*groups: str) -> Iterator[FieldOption]:
    """Yield the options of all fields in these groups."""
    for option in (option for group in groups for option in options_of(group)):
        yield FieldOption(
            option.name,
            option.place,
            str if option.word else option.kind,
            option.help or option.text,
            least=1 if option.kind is int and not option.word else None,
            read=partial(_number, option) if option.word else None,
        )


def _number(option: DatastreamOption, text: str) -> int | str:
    """Parse the value of an option that allows numbers and one word. Raises InvalidRequest."""
    if text == option.word:
        return text
    return bounds.digits(f"--{option.name.replace('_', '-')}", text, 1, int(option.most or bounds.LARGEST_MS))


FIELDS: Final = (
    FieldOption(
        "topics", ("source", "topics"), str, "Regular expression of whole topic names.", required=True
    ),
    FieldOption("owner", ("owner",), str, "Responsible team or person.", required=True),
    FieldOption("source", ("source", "cluster"), str, "Cluster alias or host:port.", "source"),
    FieldOption("exclude", ("source", "exclude"), str, "Regular expression of topics to exclude."),
    FieldOption("internal", ("source", "internal"), bool, "Also match names that start with __."),
    FieldOption("match_all", ("source", "match_all"), bool, "Confirm selecting all topics, as with .*."),
    FieldOption("destination", ("destination", "cluster"), str, "Cluster alias or host:port.", "destination"),
    FieldOption("rename", ("destination", "name"), str, "Destination topic; * is the source name."),
    *_of("destination"),
    FieldOption(
        "start",
        ("start",),
        str,
        "Start: earliest (default), latest, committed, committed-or-latest, earliest-local, or a time:"
        " 2026-11-21T08:00:00Z.",
    ),
    FieldOption(
        "start_position",
        ("start_positions",),
        list[str],
        "Start offset, TOPIC:PARTITION=OFFSET (* for every topic); repeatable.",
        read=_positions,
    ),
    *_of("guarantee", "policies", "quota", "limits"),
    FieldOption(
        "objective_ms",
        ("objective", "milliseconds"),
        int,
        "Latency objective in ms, without a budget.",
        least=1,
        is_former=True,
    ),
    FieldOption(
        "objective_percentile",
        ("objective", "percentile"),
        float,
        "Percentile of the objective in ms (default 99).",
        is_former=True,
    ),
    FieldOption(
        "slo",
        ("objectives",),
        list[str],
        "Objective with an error budget, 'p99 within 2 s over 60 s, 99.5 % over 30 d'; repeatable.",
        read=_objectives,
    ),
    *_of("placement", "monitor", "canary", "audit", "audit_lateness_seconds", "groups"),
)
_BY_NAME: Final = {field.name: field for field in FIELDS}
_UNSET: Final[Mapping[str, tuple[str, ...]]] = {
    **{field.flag: field.place for field in FIELDS if field.may_change and not field.required},
    "objective-ms": ("objective",),
}
"""Options whose fields can be unset, with their paths. Any other name is a metadata key."""
_FORMER: Final = frozenset(field.flag for field in FIELDS if field.is_former)


def unset_names() -> str:
    """Return the names that `--unset` accepts, for a help text."""
    return ", ".join(name for name in _UNSET if name not in _FORMER)


def with_fields(*, creates: bool) -> Callable[[Command], Command]:
    """Return a decorator that replaces `**options` of a command by one option for each field."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        fixed = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        first = [parameter for parameter in fixed if parameter.default is parameter.empty]
        rest = [
            parameter.replace(kind=parameter.KEYWORD_ONLY)
            for parameter in fixed
            if parameter.default is not parameter.empty
        ]
        fields = [field.parameter(creates=creates) for field in FIELDS if creates or field.may_change]
        parameters = [*first, *fields, *rest]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def document_of(options: Mapping[str, Any], pairs: Sequence[str]) -> dict[str, Any]:
    """Convert options and metadata to the part of a definition that they set. Raises InvalidRequest.

    `options`: values by name, None if not given. `pairs`: metadata as `KEY=VALUE`.
    """
    found: dict[str, Any] = {}
    for name, value in options.items():
        if value is not None and value != []:
            field = _BY_NAME[name]
            found = merged(found, _nested(field.place, field.read(value) if field.read else value))
    for pair in pairs:
        key, is_pair, value = pair.partition("=")
        if not key or not is_pair:
            raise InvalidRequest(f"invalid --set {pair!r}: no value", advice="write --set KEY=VALUE")
        found.setdefault("metadata", {})[key] = value
    return found


def _nested(place: Sequence[str], value: object) -> dict[str, Any]:
    first, *rest = place
    return {first: _nested(rest, value) if rest else value}


def patch_of(options: Mapping[str, Any], pairs: Sequence[str], unset: Sequence[str]) -> dict[str, Any]:
    """Return a merge patch that sets the given options and metadata, and removes the fields in `unset`.

    Raises InvalidRequest if the patch is empty or a pair is invalid.
    """
    patch = document_of(options, pairs)
    for place in sorted((_UNSET.get(name, ("metadata", name)) for name in unset), key=len, reverse=True):
        *parents, field = place
        level = patch
        for parent in parents:
            level = level.setdefault(parent, {})
        level[field] = None
    if not patch:
        raise InvalidRequest(
            "no changes given", advice="list the options with headrace datastream update --help"
        )
    return patch
