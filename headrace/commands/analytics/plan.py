"""`headrace plan`: plan tasks and placement from a file of loads, or replay recorded loads."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.commands.options import AtOption, ConfigOption
from headrace.console.terminal import complain, console, print_json, print_table
from headrace.errors import EXIT_FAILED
from mirror.wording import counted, rate_text

if TYPE_CHECKING:
    from assigner.what_if.document import Fallback
    from assigner.what_if.replay import Hourly
    from headrace.settings import HeadraceSettings
    from mirror.model.load import TaskLimits

_MOVES_SHOWN = 30
_TASKS_SHOWN = 60


def plan(
    input_file: Annotated[
        Path | None,
        typer.Option("--input", "-i", help="File of loads (JSON or CSV); - reads JSON from stdin."),
    ] = None,
    history: Annotated[
        Path | None, typer.Option(help="File of recorded hourly loads (JSON or CSV) to replay.")
    ] = None,
    since: Annotated[
        str, typer.Option(help="Length of the history to replay from Pinot, such as 24h or 7d.")
    ] = "",
    cluster: Annotated[
        str, typer.Option(help="With --since, the cluster whose loads are replayed.")
    ] = "source",
    ahead: Annotated[
        str, typer.Option(help="Forecast this time after the history, such as 24h, instead of replaying it.")
    ] = "",
    certainty: Annotated[
        float, typer.Option(help="With --ahead, share of hours that the upper bound must cover.")
    ] = 0.97,
    growth: Annotated[float, typer.Option(help="Factor applied to every recorded load.")] = 1.0,
    plot: Annotated[
        Path | None, typer.Option(help="Image file for a chart of the replay or the forecast.")
    ] = None,
    capacity: Annotated[int | None, typer.Option(help="Capacity of a task in bytes per second.")] = None,
    capacity_of: Annotated[
        str,
        typer.Option(
            help="Datastream of the service whose capacity is used where a capacity option is missing."
        ),
    ] = "",
    at: AtOption = "",
    messages: Annotated[int | None, typer.Option(help="Capacity of a task in messages per second.")] = None,
    utilisation: Annotated[
        int | None, typer.Option(help="Percentage of the capacity that placement may fill.")
    ] = None,
    min_tasks: Annotated[int | None, typer.Option(help="Minimum number of tasks.")] = None,
    max_tasks: Annotated[int | None, typer.Option(help="Maximum number of tasks.")] = None,
    max_partitions: Annotated[int | None, typer.Option(help="Maximum number of partitions per task.")] = None,
    mode: Annotated[
        Literal["full", "incremental"] | None,
        typer.Option(help="Kind of plan; full ignores the current placement."),
    ] = None,
    rebalance: Annotated[
        bool | None, typer.Option(help="Balance the load of all tasks instead of only resolving overloads.")
    ] = None,
    strict: Annotated[
        bool, typer.Option(help="Exit 1 if a task is overloaded or a partition has no task.")
    ] = False,
    as_json: Annotated[
        bool | None,
        typer.Option("--json/--table", help="Output format (default: a table on a terminal, else JSON)."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Plan tasks and placement, with reasons and proven bounds."""
    from headrace.settings import load_settings

    _refuse_contradictions(
        [input_file is not None, history is not None, bool(since)],
        {"--growth": growth != 1.0, "--plot": plot is not None, "--ahead": bool(ahead)},
        {"--mode": mode is not None, "--strict": strict},
    )
    settings = load_settings(config)
    in_use = _in_use(capacity_of, at, config)
    changes = _changes(
        in_use,
        {"bytes_per_second": capacity, "messages_per_second": messages, "utilisation_percent": utilisation},
        {"min_tasks": min_tasks, "max_tasks": max_tasks, "max_partitions_per_task": max_partitions},
        {"mode": mode, "rebalance": rebalance},
    )
    for_programs = not sys.stdout.isatty() if as_json is None else as_json
    if input_file is not None:
        _what_if(input_file, changes, settings, for_programs=for_programs, strict=strict)
        return
    from headrace.foresight.replays import from_file, from_pinot, notes_on_file

    if history is not None:
        hours = from_file(history)
        notes = notes_on_file(list(hours))
    else:
        hours, notes = from_pinot(settings, cluster, since)
    for note in notes:
        complain(note)
    replayed = _Replay(hours, growth, changes, settings, plot, notes, for_programs)
    if ahead:
        _forecast(replayed, ahead, certainty)
    else:
        _replay(replayed)


def _refuse_contradictions(
    given: list[bool], of_a_replay: Mapping[str, bool], of_a_file: Mapping[str, bool]
) -> None:
    """Raise InvalidRequest for options of `headrace plan` that contradict each other.

    `given`: whether --input, --history and --since are set.

    Raises InvalidRequest with the name of the option.
    """
    from mirror.errors import InvalidRequest

    if sum(given) != 1:
        raise InvalidRequest("pass exactly one of --input FILE, --history FILE and --since 24h")
    where, refused = ("--history or --since", of_a_replay) if given[0] else ("--input", of_a_file)
    for option, is_given in refused.items():
        if is_given:
            raise InvalidRequest(f"{option} requires {where}")


def _in_use(name: str, at: str, config: Path | None) -> Mapping[str, Any]:
    """Return the task capacity on which the latest plan of a datastream is based; empty if `name` is empty.
    Raises InvalidRequest if the service has not planned the datastream yet."""
    if not name:
        return {}
    from headrace.commands.calls import connect
    from mirror.errors import InvalidRequest

    groups = connect(at, config).get("/v1/plan", datastream=name, tasks="false")["groups"]
    found: Mapping[str, Any] | None = groups[0]["capacity"] if groups else None
    if found is None:
        raise InvalidRequest(f"--capacity-of {name}: the service has not computed a plan yet")
    return {key: found[key] for key in ("bytes_per_second", "messages_per_second", "utilisation_percent")}


def _changes(*sections: Mapping[str, Any]) -> dict[str, Any]:
    """Combine options of the command line into the part of an input document that they replace."""
    in_use, given, limits, rest = ({key: v for key, v in part.items() if v is not None} for part in sections)
    capacity = {**in_use, **given}
    return {**({"capacity": capacity} if capacity else {}), **({"limits": limits} if limits else {}), **rest}


def _what_if(
    path: Path, changes: Mapping[str, Any], settings: HeadraceSettings, *, for_programs: bool, strict: bool
) -> None:
    from assigner.what_if.document import understand
    from assigner.what_if.report import task_rows, to_json

    question = understand(_merged(_read(path), changes, settings), _fallback(settings))
    answer, names = question.answer()
    document = to_json(question, answer, names)
    if for_programs:
        print_json(document)
    else:
        _show(document, task_rows(question, answer, names))
    if strict and (answer.overloaded or answer.unplaced):
        complain(
            f"overloaded tasks: {len(answer.overloaded)}, partitions without a task: {len(answer.unplaced)}"
        )
        raise typer.Exit(EXIT_FAILED)


def _read(path: Path) -> dict[str, Any]:
    from assigner.what_if.document import read_csv, read_json
    from headrace.console.files import read_file, read_stdin

    if str(path) == "-":
        return read_json(read_stdin())
    text = read_file(path)
    return read_csv(text) if path.suffix.lower() == ".csv" else read_json(text)


def _merged(
    document: dict[str, Any], changes: Mapping[str, Any], settings: HeadraceSettings
) -> dict[str, Any]:
    """Merge the options into the input document. Options take precedence.

    Invalid parts of the document are kept, so that validation reports them. Missing values of a capacity come
    from the settings.
    """
    merged = {**document}
    for key, value in changes.items():
        if not isinstance(value, dict):
            merged[key] = value
        elif isinstance(before := document.get(key) or {}, dict):
            usual = asdict(_fallback(settings).capacity) if key == "capacity" else {}
            merged[key] = {**usual, **before, **value}
    return merged


def _fallback(settings: HeadraceSettings) -> Fallback:
    from assigner.what_if.document import Fallback

    return Fallback(
        settings.mirror.leader.task_capacity,
        settings.assigner.unknown_load(),
        replace(settings.assigner.policy(), overload_band=0.0, move_budget=None),
    )


def _show(document: Mapping[str, Any], tasks: list[dict[str, Any]]) -> None:
    columns = ["task", "partitions", "load", "messages_per_second", "share_of_usable"]
    print_table(
        counted(document["tasks"], "task"), columns, [_task_row(task) for task in tasks[:_TASKS_SHOWN]]
    )
    if len(tasks) > _TASKS_SHOWN:
        console().print(f"… and {len(tasks) - _TASKS_SHOWN} more")
    for host in document.get("hosts", []):
        console().print(
            f"host {host['name']}: {counted(len(host['tasks']), 'task')}, "
            f"{rate_text(host['load_bytes_per_second'])}"
        )
    for reason in document["reasons"]:
        console().print(f"- {reason}")
    for key in ("offending", "overloaded_tasks", "unplaced", "estimated", "defaulted"):
        if document[key]:
            console().print(f"{key.replace('_', ' ')}: {len(document[key])}")
    console().print(
        f"largest task load {rate_text(document['max_load_bytes_per_second'])}, "
        f"lower bound of any plan {rate_text(document['max_load_lower_bound_bytes_per_second'])}; "
        f"{counted(len(document['moves']), 'partition')} with "
        f"{rate_text(document['moved_bytes_per_second'])} move, "
        f"lower bound {rate_text(document['moved_lower_bound_bytes_per_second'])}"
    )
    if document["moves"]:
        columns = ["topic", "partition", "from", "to", "reason"]
        print_table("moves", columns, document["moves"][:_MOVES_SHOWN])


def _task_row(task: Mapping[str, Any]) -> dict[str, Any]:
    load, share = rate_text(task["bytes_per_second"]), f"{task['percent_of_usable']} %"
    return {**task, "load": load, "share_of_usable": share}


@dataclass(frozen=True, slots=True)
class _Replay:
    """Recorded loads, and options for replaying them.

    `changes`: values set by options. `notes`: messages about gaps in the recorded loads.
    """

    hours: Hourly
    growth: float
    changes: Mapping[str, Any]
    settings: HeadraceSettings
    plot: Path | None
    notes: list[str]
    for_programs: bool

    @property
    def fallback(self) -> Fallback:
        """Capacity and planning policy for the replay."""
        from mirror.model.load import TaskCapacity

        fallback = _fallback(self.settings)
        capacity = TaskCapacity(**{**asdict(fallback.capacity), **self.changes.get("capacity", {})})
        policy = replace(self.settings.assigner.policy(), rebalance=bool(self.changes.get("rebalance")))
        return replace(fallback, capacity=capacity, policy=policy)

    @property
    def limits(self) -> TaskLimits:
        """Limits on the number of tasks, and on the partitions in a task."""
        from mirror.model.load import TaskLimits

        return TaskLimits(**self.changes.get("limits", {}))


def _replay(options: _Replay) -> None:
    from assigner.what_if.replay import replay
    from headrace.foresight.replays import draw, peak_of, readable

    found = replay(options.hours, options.growth, options.limits, options.fallback)
    peak = peak_of(found, options.settings.assigner.advice.tasks_per_instance)
    if options.plot is not None:
        draw(found, options.fallback.capacity.usable_bytes_per_second, options.plot)
    if options.for_programs:
        document = {"growth": options.growth, "notes": options.notes, "peak": peak._asdict()}
        print_json(document | {"hours": [asdict(hour) for hour in found]})
    else:
        rows = readable(found)
        print_table(f"replay at {options.growth:g} times the recorded load", list(rows[0]), rows)
        console().print(peak.sentence)


def _forecast(options: _Replay, ahead: str, certainty: float) -> None:
    from assigner.forecast.outlook import HOUR_MS, outlook
    from assigner.what_if.ahead import coming_hours
    from headrace.console.durations import milliseconds
    from headrace.foresight.replays import draw_ahead, graded_sentence, readable_ahead

    hours = -(-milliseconds(ahead) // HOUR_MS)
    found = outlook(options.hours, hours, certainty)
    rows = coming_hours(found, options.growth, options.limits, options.fallback)
    if options.plot is not None:
        draw_ahead(rows, options.plot)
    if options.for_programs:
        grade = {key: value if math.isfinite(value) else None for key, value in found.grade._asdict().items()}
        document = {"growth": options.growth, "certainty": certainty, "grade": grade, "notes": options.notes}
        print_json(document | {"hours": [asdict(row) for row in rows]})
    else:
        shown = readable_ahead(rows)
        print_table(f"forecast at {options.growth:g} times the recorded load", list(shown[0]), shown)
        console().print(graded_sentence(found.grade))
