"""`headrace dr tail`: handle records that were not copied before their cluster was lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.commands.calls import CallOptions
from headrace.commands.pairs.pair_console import (
    DeadlineOption,
    DryRunOption,
    PairArgument,
    conclude,
    open_session,
    show_plan,
)
from headrace.console.durations import duration_seconds
from headrace.console.option_groups import CommandGroup
from headrace.console.terminal import console, print_json, print_table, time_text
from mirror.wording import counted

if TYPE_CHECKING:
    from headrace.dr.pair_session import PairSession
    from headrace.dr.tail import PartitionTail

app = CommandGroup(no_args_is_help=True)
TopicsOption = Annotated[str, typer.Option(help="Regular expression that matches whole topic names.")]
_COLUMNS: Final = ("partition", "offsets", "records", "bytes", "from", "to", "expired")


@app.command("list")
def list_tail(pair: PairArgument, topics: TopicsOption = ".*", call: CallOptions = CallOptions()) -> None:
    """Show the undecided records, by partition, and earlier decisions."""
    with open_session(pair, call, reads_only=True) as session:
        found = _tail_of(session, topics)
        fork = session.state().fork
    decisions = [] if fork is None else [decision.model_dump(mode="json") for decision in fork.decisions]
    if call.printed_json(
        {"pair": pair, "partitions": [partition._asdict() for partition in found], "decisions": decisions}
    ):
        return
    _show(pair, found)
    for decision in decisions:
        records = counted(decision["records"], "record")
        console().print(f"{decision['action']} of {records} by {decision['operator']} {decision['folder']}")


@app.command()
def export(
    pair: PairArgument,
    folder: Annotated[Path, typer.Argument(help="Folder for the files; an interrupted export continues.")],
    topics: TopicsOption = ".*",
    dry_run: DryRunOption = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Write the undecided records to Avro files, and record the export.

    The records remain undecided. headrace copy --source file:FOLDER reads the files.
    """
    with open_session(pair, call, reads_only=dry_run) as session:
        if dry_run:
            _preview(pair, _tail_of(session, topics), as_json=call.as_json)
            return
        decision = session.export_tail(folder, topics)
    if not call.printed_json({"pair": pair, **decision.model_dump(mode="json")}):
        console().print(f"{pair}: {counted(decision.records, 'record')} in {decision.folder}")


@app.command()
def replay(
    pair: PairArgument,
    topics: TopicsOption = ".*",
    deadline: DeadlineOption = "10m",
    dry_run: DryRunOption = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Write the undecided records to the active cluster, each once.

    Records keep their order in each partition and get a header headrace-replayed. Before writing, the command
    denies Write on the lost cluster to the principals of the pair. An interrupted replay continues if you run
    the command again.
    """
    with open_session(pair, call, reads_only=dry_run) as session:
        _decide(session, "replay", topics, deadline, dry_run=dry_run, as_json=call.as_json)


@app.command()
def skip(
    pair: PairArgument,
    topics: TopicsOption = ".*",
    deadline: DeadlineOption = "10m",
    dry_run: DryRunOption = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Skip the undecided records, and record the decision.

    First denies Write on the lost cluster to the principals of the pair.
    """
    with open_session(pair, call, reads_only=dry_run) as session:
        _decide(session, "skip", topics, deadline, dry_run=dry_run, as_json=call.as_json)


def _decide(
    session: PairSession, action: str, topics: str, deadline: str, *, dry_run: bool, as_json: bool
) -> None:
    """Replay, skip or export the undecided records; in a dry run, only show the steps.

    `action`: a value of `Kind`.
    """
    from mirror.jobs.dr.operation import Kind

    seconds = duration_seconds(deadline)
    state = session.planned("", Kind(action), selection=topics)
    if not dry_run:
        conclude(session, session.run(state, seconds), as_json=as_json)
        return
    if not as_json:
        _show(session.name, _tail_of(session, topics))
    show_plan(session, state, as_json=as_json)


def _tail_of(session: PairSession, topics: str) -> Sequence[PartitionTail]:
    fork, ends = session.tail(session.state(), topics)
    return session.bench.run(session.acts.tail(fork).list(ends))


def _preview(pair: str, found: Sequence[PartitionTail], *, as_json: bool) -> None:
    if as_json:
        print_json({"pair": pair, "partitions": [tail._asdict() for tail in found]})
    else:
        _show(pair, found)


def _show(pair: str, found: Sequence[PartitionTail]) -> None:
    rows = [
        {
            "partition": f"{tail.topic}-{tail.partition}",
            "offsets": f"{tail.first_offset} … {tail.end_offset}",
            "records": tail.records,
            "bytes": tail.bytes,
            "from": time_text(tail.from_ms, "-"),
            "to": time_text(tail.to_ms, "-"),
            "expired": tail.expired or None,
        }
        for tail in found
    ]
    print_table(f"undecided tail of {pair}", _COLUMNS, rows)
