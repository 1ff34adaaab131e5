"""Fields of a datastream as options: one table for `headrace datastream create` and `update`.

A command takes them as `**options`; `with_fields` sets the signature from which the command line is
generated. Options that are not given are None, so that the service's defaults apply.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, TypeVar

import typer

from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.datastreams.objectives.lines import read_objective
from mirror.model.datastreams.objectives.mode import Mode
from mirror.model.datastreams.policy import CopyPath, Guarantee, Isolation, OnLoss, OnRejection
from mirror.model.datastreams.positions.start_positions import positions_of_options
from mirror.model.documents import merged
from mirror.model.load import LARGEST_CAPACITY
from mirror.model.sizing.knobs import LEARNED

Command = TypeVar("Command", bound=Callable[..., None])


@dataclass(frozen=True)
class FieldOption:
    """A field as an option.

    place: path in a definition. at_creation: default of create. may_change: whether update has the option.
    required: create requires it, and update cannot unset it. read: converts the given value to the value in a
    definition. is_former: deprecated and hidden from help.
    """

    name: str
    place: tuple[str, ...]
    kind: Any
    help: str
    at_creation: str | None = None
    may_change: bool = True
    required: bool = False
    least: int | None = None
    read: Callable[[Any], Any] | None = None
    is_former: bool = False

    @property
    def flag(self) -> str:
        """The option without leading dashes."""
        return self.name.replace("_", "-")

    def parameter(self, *, creates: bool) -> inspect.Parameter:
        """Return the parameter for typer."""
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


def _capacity(text: str) -> int | str:
    return text if text == LEARNED else bounds.digits("--capacity", text, 1, LARGEST_CAPACITY)


FIELDS: Final = (
    FieldOption(
        "topics",
        ("source", "topics"),
        str,
        "Regular expression that matches whole topic names.",
        required=True,
    ),
    FieldOption("owner", ("owner",), str, "Responsible team or person.", required=True),
    FieldOption(
        "source", ("source", "cluster"), str, "Cluster alias or host:port.", "source", may_change=False
    ),
    FieldOption("exclude", ("source", "exclude"), str, "Regular expression of topics to exclude."),
    FieldOption("internal", ("source", "internal"), bool, "Also match names that start with __."),
    FieldOption(
        "match_all",
        ("source", "match_all"),
        bool,
        "Confirm selecting all topics, as with .*.",
    ),
    FieldOption(
        "destination",
        ("destination", "cluster"),
        str,
        "Cluster alias or host:port.",
        "destination",
        may_change=False,
    ),
    FieldOption(
        "rename",
        ("destination", "name"),
        str,
        "Topic name at the destination; * is the source name.",
        may_change=False,
    ),
    FieldOption(
        "shared",
        ("destination", "shared"),
        bool,
        "Share destination topics with other datastreams that set this option too.",
    ),
    FieldOption(
        "grow_existing",
        ("destination", "grow_existing"),
        bool,
        "Allow adding partitions to existing topics.",
    ),
    FieldOption("adopt", ("destination", "adopt"), bool, "Allow copying into existing topics."),
    FieldOption(
        "exclude_setting",
        ("destination", "excluded_settings"),
        list[str],
        "Topic setting that is not copied to the destination; repeatable.",
    ),
    FieldOption(
        "start",
        ("start",),
        str,
        "Start position: earliest, latest, committed, committed-or-latest, earliest-local, or a time such as"
        " 2026-11-21T08:00:00Z.",
        may_change=False,
    ),
    FieldOption(
        "start_position",
        ("start_positions",),
        list[str],
        "Start offset, TOPIC:PARTITION=OFFSET (* for every topic); repeatable.",
        may_change=False,
        read=_positions,
    ),
    FieldOption("guarantee", ("guarantee",), Guarantee, "Delivery guarantee."),
    FieldOption("isolation", ("policies", "isolation"), Isolation, "Isolation level of reads at the source."),
    FieldOption(
        "on_loss",
        ("policies", "on_loss"),
        OnLoss,
        "Action if the source loses records before they are copied.",
    ),
    FieldOption(
        "on_rejection",
        ("policies", "on_rejection"),
        OnRejection,
        "Action if the destination rejects a record.",
    ),
    FieldOption(
        "path",
        ("policies", "path"),
        CopyPath,
        "Copy path: whole batches or single records.",
    ),
    FieldOption(
        "transform",
        ("policies", "transforms"),
        list[str],
        "Transform as NAME:TEXT; repeatable, applied in order.",
    ),
    FieldOption(
        "bytes_per_second", ("quota", "bytes_per_second"), int, "Quota in bytes per second.", least=1
    ),
    FieldOption("min_tasks", ("limits", "min_tasks"), int, "Minimum number of tasks.", least=1),
    FieldOption("max_tasks", ("limits", "max_tasks"), int, "Maximum number of tasks.", least=1),
    FieldOption(
        "max_partitions_per_task",
        ("limits", "max_partitions_per_task"),
        int,
        "Maximum number of partitions per task.",
        least=1,
    ),
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
        "Percentile of --objective-ms (default 99).",
        is_former=True,
    ),
    FieldOption(
        "slo",
        ("objectives",),
        list[str],
        "Objective with an error budget, 'p99 within 2 s over 60 s, 99.5 % over 30 d'; repeatable.",
        read=_objectives,
    ),
    FieldOption(
        "capacity",
        ("placement", "capacity_bytes_per_second"),
        str,
        "Capacity of a task in bytes per second, or learned.",
        read=_capacity,
    ),
    FieldOption(
        "capacity_messages",
        ("placement", "capacity_messages_per_second"),
        int,
        "Capacity of a task in messages per second.",
        least=1,
    ),
    FieldOption(
        "utilisation",
        ("placement", "utilisation_percent"),
        int,
        "Percentage of the capacity to fill.",
        least=1,
    ),
    FieldOption(
        "headroom",
        ("placement", "scale_in_headroom"),
        float,
        "Share of each task to keep free when the number of tasks is reduced.",
    ),
    FieldOption(
        "strategy",
        ("placement", "strategy"),
        str,
        "Placement strategy: assigner, simple, auto, or a plug-in.",
    ),
    FieldOption(
        "load_provider",
        ("placement", "load_provider"),
        str,
        "Provider of loads: self, pinot, a plug-in, or none (placement by partition count).",
    ),
    FieldOption("monitor", ("monitor",), Mode, "Reaction of the monitor to a breach."),
)
_BY_NAME: Final = {one.name: one for one in FIELDS}
_UNSET: Final[Mapping[str, tuple[str, ...]]] = {
    **{one.flag: one.place for one in FIELDS if one.may_change and not one.required},
    "objective-ms": ("objective",),
}
"""Options whose fields can be unset; any other name is a metadata key."""
_FORMER: Final = frozenset(one.flag for one in FIELDS if one.is_former)


def unset_names() -> str:
    """Return the names of the fields that can be unset, for a help text."""
    return ", ".join(name for name in _UNSET if name not in _FORMER)


def with_fields(*, creates: bool) -> Callable[[Command], Command]:
    """Return a decorator that replaces `**options` of a command with an option per settable field."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        fixed = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        first = [one for one in fixed if one.default is one.empty]
        rest = [one.replace(kind=one.KEYWORD_ONLY) for one in fixed if one.default is not one.empty]
        fields = [one.parameter(creates=creates) for one in FIELDS if creates or one.may_change]
        parameters = [*first, *fields, *rest]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def document_of(options: Mapping[str, Any], pairs: Sequence[str]) -> dict[str, Any]:
    """Return the given options and metadata as a partial definition. Options are by name, None if not given;
    `pairs` are `KEY=VALUE`. Raises InvalidRequest for an invalid pair or value."""
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
    """Return a merge patch that sets the given options and metadata (see `document_of`) and removes the
    fields in `unset`. Raises InvalidRequest if the patch is empty or a pair is invalid."""
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
