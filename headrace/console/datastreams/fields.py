"""The fields of a datastream as options: one table for `headrace datastream create` and `update`.

A command takes them as `**options`; `with_fields` gives it the signature that the command line is made of. An
option that is not given is None, so that the service's defaults count.
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
    """One field. `place`: where a definition has it; `at_creation`: what create takes when it is not given;
    `may_change`: whether update has it; `required`: create has to be given it, and nobody takes it away;
    `read`: makes the value in a definition of what was given; `is_former`: another option has replaced it,
    and help does not show it."""

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
        """The option without its dashes."""
        return self.name.replace("_", "-")

    def parameter(self, *, creates: bool) -> inspect.Parameter:
        """As typer reads it."""
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
        "topics", ("source", "topics"), str, "Regular expression over whole topic names.", required=True
    ),
    FieldOption("owner", ("owner",), str, "Who answers for it.", required=True),
    FieldOption(
        "source", ("source", "cluster"), str, "Cluster alias or host:port.", "source", may_change=False
    ),
    FieldOption("exclude", ("source", "exclude"), str, "Regular expression of topics to leave out."),
    FieldOption(
        "internal", ("source", "internal"), bool, "Whether names that begin with two underscores may match."
    ),
    FieldOption(
        "match_all", ("source", "match_all"), bool, "Whether every topic is meant, as an expression .* says."
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
        "Name at the destination; * is the source name.",
        may_change=False,
    ),
    FieldOption(
        "shared", ("destination", "shared"), bool, "Whether others that say so too may write its topics."
    ),
    FieldOption(
        "grow_existing",
        ("destination", "grow_existing"),
        bool,
        "Whether topics that were there before may get more partitions.",
    ),
    FieldOption(
        "adopt", ("destination", "adopt"), bool, "Whether it may write into topics that were there before."
    ),
    FieldOption(
        "exclude_setting",
        ("destination", "excluded_settings"),
        list[str],
        "Topic setting that is not carried to the destination; repeated.",
    ),
    FieldOption(
        "start",
        ("start",),
        str,
        "earliest, latest, committed, committed-or-latest, earliest-local, or 2026-11-21T08:00:00Z.",
        may_change=False,
    ),
    FieldOption(
        "start_position",
        ("start_positions",),
        list[str],
        "TOPIC:PARTITION=OFFSET at which a partition begins instead; * for every topic; repeated.",
        may_change=False,
        read=_positions,
    ),
    FieldOption("guarantee", ("guarantee",), Guarantee, "What holds for every record."),
    FieldOption("isolation", ("policies", "isolation"), Isolation, "Which records of the source count."),
    FieldOption("on_loss", ("policies", "on_loss"), OnLoss, "When records are gone from the source."),
    FieldOption(
        "on_rejection", ("policies", "on_rejection"), OnRejection, "When the destination refuses a record."
    ),
    FieldOption("path", ("policies", "path"), CopyPath, "Whether batches pass unopened."),
    FieldOption(
        "transform", ("policies", "transforms"), list[str], "NAME:TEXT of a plug-in; repeated, in order."
    ),
    FieldOption("bytes_per_second", ("quota", "bytes_per_second"), int, "Quota.", least=1),
    FieldOption("min_tasks", ("limits", "min_tasks"), int, "Least number of tasks.", least=1),
    FieldOption("max_tasks", ("limits", "max_tasks"), int, "Largest number of tasks.", least=1),
    FieldOption(
        "max_partitions_per_task",
        ("limits", "max_partitions_per_task"),
        int,
        "Most partitions of a task.",
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
        "Of the records that --objective-ms is for: 99 unless given.",
        is_former=True,
    ),
    FieldOption(
        "slo",
        ("objectives",),
        list[str],
        "Objective with a budget, 'p99 within 2 s over 60 s, 99.5 % over 30 d'; repeated.",
        read=_objectives,
    ),
    FieldOption(
        "capacity",
        ("placement", "capacity_bytes_per_second"),
        str,
        "Bytes per second that a task bears, or learned.",
        read=_capacity,
    ),
    FieldOption(
        "capacity_messages",
        ("placement", "capacity_messages_per_second"),
        int,
        "Messages per second that a task bears.",
        least=1,
    ),
    FieldOption(
        "utilisation",
        ("placement", "utilisation_percent"),
        int,
        "Percent of the capacity that placement fills.",
        least=1,
    ),
    FieldOption(
        "headroom",
        ("placement", "scale_in_headroom"),
        float,
        "Share of each remaining task that stays free where tasks are given up.",
    ),
    FieldOption(
        "strategy",
        ("placement", "strategy"),
        str,
        "Who plans its tasks: assigner, simple, auto, or a plug-in.",
    ),
    FieldOption(
        "load_provider",
        ("placement", "load_provider"),
        str,
        "Who says what it carries: self, pinot, a plug-in, or none: its tasks are planned by count.",
    ),
    FieldOption("monitor", ("monitor",), Mode, "Whether the monitor acts on a breach, or only observes."),
)
_BY_NAME: Final = {one.name: one for one in FIELDS}
_UNSET: Final[Mapping[str, tuple[str, ...]]] = {
    **{one.flag: one.place for one in FIELDS if one.may_change and not one.required},
    "objective-ms": ("objective",),
}
"""Options whose fields may be taken away; any other name is a key of the metadata."""
_FORMER: Final = frozenset(one.flag for one in FIELDS if one.is_former)


def unset_names() -> str:
    """What may be taken away, for a help text."""
    return ", ".join(name for name in _UNSET if name not in _FORMER)


def with_fields(*, creates: bool) -> Callable[[Command], Command]:
    """Replaces `**options` of a command by an option for each field that it may give."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        fixed = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        first = [one for one in fixed if one.default is one.empty]
        rest = [one.replace(kind=one.KEYWORD_ONLY) for one in fixed if one.default is not one.empty]
        fields = [one.parameter(creates=creates) for one in FIELDS if creates or one.may_change]
        parameters = [*first, *fields, *rest]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return decorate


def document_of(options: Mapping[str, Any], pairs: Sequence[str]) -> dict[str, Any]:
    """What was given as a part of a definition: options by their names, None for those that were not;
    `KEY=VALUE` of the metadata. Raises InvalidRequest for what is no pair, or no value of its field."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        if value is not None and value != []:
            field = _BY_NAME[name]
            found = merged(found, _nested(field.place, field.read(value) if field.read else value))
    for pair in pairs:
        key, is_pair, value = pair.partition("=")
        if not key or not is_pair:
            raise InvalidRequest(f"--set {pair!r} has no value", advice="write --set KEY=VALUE")
        found.setdefault("metadata", {})[key] = value
    return found


def _nested(place: Sequence[str], value: object) -> dict[str, Any]:
    first, *rest = place
    return {first: _nested(rest, value) if rest else value}


def patch_of(options: Mapping[str, Any], pairs: Sequence[str], unset: Sequence[str]) -> dict[str, Any]:
    """A merge patch with what was given, as `document_of` takes it, and without what is `unset`. Raises
    InvalidRequest when that is nothing, or no pair."""
    patch = document_of(options, pairs)
    for place in sorted((_UNSET.get(name, ("metadata", name)) for name in unset), key=len, reverse=True):
        *parents, field = place
        level = patch
        for parent in parents:
            level = level.setdefault(parent, {})
        level[field] = None
    if not patch:
        raise InvalidRequest(
            "nothing is to be changed", advice="headrace datastream update --help lists what can"
        )
    return patch
