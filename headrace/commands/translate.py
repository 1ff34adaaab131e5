"""`headrace translate` migrates consumer groups; `headrace progress` shows the class of every offset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.commands.options import ConfigOption, JsonOption
from mirror.wording import counted, first_few

if TYPE_CHECKING:
    from mirror.jobs.translate_job import PositionMove, TranslateJob

_MOST_ROWS: Final = 100

StateOption = Annotated[
    str,
    typer.Option(
        help="Name given to --state of headrace copy, or group of the datastream (for an"
        " ungrouped datastream, its name)."
    ),
]


def translate(
    source: Annotated[str, typer.Option(help="Source cluster: an alias, or host:port.")],
    destination: Annotated[str, typer.Option(help="Destination cluster: an alias, or host:port.")],
    state: StateOption,
    group: Annotated[str, typer.Option(help="Consumer group to translate.")],
    back: Annotated[
        bool, typer.Option("--back", help="Translate from the destination to the source.")
    ] = False,
    as_group: Annotated[
        str, typer.Option(help="Name of the group on the other cluster (default: the same name).")
    ] = "",
    rewind: Annotated[
        bool,
        typer.Option(
            "--rewind",
            help="Also commit offsets that are lower than the group's offsets on the other cluster.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the positions without committing them.")
    ] = False,
    timeout: Annotated[
        str,
        typer.Option(
            help="Time to wait until checkpoints reach the group's positions, such as 90s or 10m. After"
            " this time, offsets beyond the copied range are replaced by the end of that range."
        ),
    ] = "30s",
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Commit a group's positions on the other cluster.

    Translation is exact to the record. The positions of a share group are its start offsets. Exits with 1 if
    a position of a mirrored topic cannot be translated, or if the group reads no mirrored topic. If the
    source does not respond, the command uses the positions of the last synchronisation (see the option groups
    of datastreams), and shows their age.
    """
    from headrace.clusters.adhoc import one_off, reach
    from headrace.console.durations import duration_seconds
    from headrace.console.terminal import note, print_json
    from headrace.dr.groups import redelivery_note
    from mirror.errors import Unreachable
    from mirror.jobs.groups.failover import plan_without_source
    from mirror.jobs.groups.source import with_kind
    from mirror.jobs.translate_job import TranslateJob, apply_translation, plan_translation
    from mirror.model.identifiers import ClusterRef
    from mirror.protocol.control.groups import SHARE

    job = TranslateJob(state, ClusterRef(source), ClusterRef(destination), group, back, as_group, rewind)
    seconds = duration_seconds(timeout)
    with one_off(config, "headrace-translate", source=source, destination=destination) as bench:
        as_of_ms = None
        reach(bench, job.destination)
        try:
            reach(bench, job.source)
            job = bench.run(with_kind(bench, job))
            moves = _when_reached(lambda: bench.run(plan_translation(bench, job)), seconds)
        except Unreachable as error:
            if back:
                raise
            moves, as_of_ms, kind = bench.run(plan_without_source(bench, job))
            job = replace(job, kind=kind)
            _note_age(str(error), as_of_ms, bench.clock.now_ms())
        done = 0 if dry_run else bench.run(apply_translation(bench, job, moves))
    if job.kind == SHARE:
        note(redelivery_note(job.target_group))
    if as_json:
        positions = [move.to_json() for move in moves]
        print_json({"committed": done, "as_of_ms": as_of_ms, "kind": job.kind, "positions": positions})
    else:
        _show_moves(job.target_group, moves, None if dry_run else done)
    _judge(job, moves)


def _note_age(failure: str, as_of_ms: int, now_ms: int) -> None:
    """Print the age of the positions that the last synchronisation stored."""
    from headrace.console.terminal import note
    from mirror.wording import duration_text

    age = duration_text(max(now_ms - as_of_ms, 0) / 1_000)
    note(f"{failure}: the positions are those that the group had at the source {age} ago")


def _when_reached(plan: Callable[[], list[PositionMove]], seconds: float) -> list[PositionMove]:
    """Repeat `plan` until checkpoints have reached all positions of the group, or `seconds` have passed, and
    return the last result."""
    from headrace.console.patience import poll_until

    return poll_until(plan, lambda moves: not any(move.behind for move in moves), seconds)


def _judge(job: TranslateJob, moves: list[PositionMove]) -> None:
    """Report positions that cannot be translated, and partitions in which the group will read records again.
    Exits with 1 if a position cannot be translated, or if the group reads no mirrored topic."""
    from headrace.console.terminal import complain, note
    from headrace.errors import EXIT_FAILED
    from mirror.jobs.translate_job import NOT_MIRRORED

    again = [str(move.origin) for move in moves if move.behind and move.is_translated]
    if again:
        named = first_few(again)
        note(f"no checkpoint has reached the group's position in {named}: the group will reread some records")
    left = [f"{move.origin}: {move.skipped}" for move in moves if move.is_left_behind]
    if left:
        complain(
            f"{counted(len(left), 'position')} of group {job.group} cannot be translated:"
            f" {first_few(left, separator='; ')}\n  consumers would start there by auto.offset.reset; run"
            " this command again once the datastream copies these partitions, before consumers start"
        )
        raise typer.Exit(EXIT_FAILED)
    if all(move.skipped == NOT_MIRRORED for move in moves):
        complain(f"group {job.group} reads no topic that is mirrored under {job.state}")
        raise typer.Exit(EXIT_FAILED)


def _show_moves(group: str, moves: list[PositionMove], done: int | None) -> None:
    """Print the translated positions of a consumer group.

    `done`: number of committed positions, None for a dry run.
    """
    from headrace.console.terminal import console, print_table

    rows = [
        {
            "from": str(move.origin),
            "offset": move.offset,
            "to": str(move.target) if move.is_translated else None,
            "becomes": move.becomes if move.is_translated else None,
            "precision": move.precision,
            "has_now": move.present,
            "skipped": move.skipped,
        }
        for move in moves
    ]
    columns = ["from", "offset", "to", "becomes", "precision", "has_now", "skipped"]
    print_table(f"positions of group {group}", columns, rows[:_MOST_ROWS])
    verb = "would be committed" if done is None else "committed"
    count = sum(not move.skipped for move in moves) if done is None else done
    console().print(f"{count} of {counted(len(moves), 'position')} {verb}")


def progress(
    destination: Annotated[str, typer.Option(help="Destination cluster: an alias, or host:port.")],
    state: StateOption,
    topics: Annotated[str, typer.Option(help="Regular expression that matches whole topic names.")] = ".*",
    runs: Annotated[bool, typer.Option("--map", help="With --json, include the whole offset map.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Show stored checkpoints, offset classes, maps and gaps."""
    from headrace.clusters.adhoc import one_off, reach
    from headrace.console.terminal import print_json, print_table
    from mirror.jobs.stored_lanes import progress_document, stored_lanes
    from mirror.model.identifiers import ClusterRef
    from mirror.model.topics import TopicSelection

    selection = TopicSelection(topics, internal=True)
    selection.require_topic_characters()
    with one_off(config, "headrace-progress", destination=destination) as bench:
        reach(bench, ClusterRef(destination))
        lanes = bench.run(stored_lanes(bench, ClusterRef(destination), state))
    documents = [
        progress_document(key, lane, with_map=runs)
        for key, lane in lanes.items()
        if selection.matches(key.partition.topic)
    ]
    if as_json:
        print_json(documents)
        return
    rows: list[dict[str, Any]] = [
        {
            "partition": f"{document['topic']}-{document['partition']}",
            "offsets": f"{document['start_offset']} … {document['next_offset']}",
            **{offset_class: count for offset_class, count in document["offsets"].items() if count},
            "map_runs": document["map_runs"],
            "paused": document["paused"],
            "gaps": len(document["gaps"]) or None,
        }
        for document in documents
    ]
    offset_classes = dict.fromkeys(
        offset_class for document in documents for offset_class, count in document["offsets"].items() if count
    )
    columns = ["partition", "offsets", *offset_classes, "map_runs", "paused", "gaps"]
    print_table(f"{counted(len(rows), 'partition')} of {state}", columns, rows[:_MOST_ROWS])
