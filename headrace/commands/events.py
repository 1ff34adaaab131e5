"""`headrace events`: changes with their reasons. `headrace incidents`: latency incidents of datastreams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.commands.calls import CallOptions
from headrace.commands.datastreams.connection import complete_name
from headrace.console.terminal import console, note, print_json
from mirror.wording import counted, duration_text

if TYPE_CHECKING:
    from headrace.console.event_stream import StreamMessage

_USUAL: Final = 30


def events(
    limit: Annotated[int | None, typer.Option(min=1, help="Number of events (default 30).")] = None,
    datastream: Annotated[
        str,
        typer.Option(help="Show only events of this datastream or its group.", autocompletion=complete_name),
    ] = "",
    follow: Annotated[
        bool, typer.Option("--follow", "--watch", "-f", help="Print new events until interrupted.")
    ] = False,
    since: Annotated[
        str,
        typer.Option(
            help="With --follow: start after the event with this id; 0-0 is the oldest retained event."
        ),
    ] = "",
    call: CallOptions = CallOptions(),
) -> None:
    """Show events with reasons, newest first.

    With --follow, events are printed as they occur, oldest first. After a lost connection, the command
    reconnects and resumes after the last event; if the service has dropped events in the meantime, it reports
    a gap. With --follow --json, each line is a JSON document.
    """
    from headrace.console.event_stream import EVENTS
    from headrace.console.event_stream import follow as follow_events
    from headrace.console.patience import pause
    from mirror.errors import InvalidRequest

    if follow and limit is not None:
        raise InvalidRequest(
            "--limit cannot be combined with --follow", advice="use --since 0-0 for all retained events"
        )
    if since and not follow:
        raise InvalidRequest("--since requires --follow")
    client = call.connect()
    if follow:
        show = _print_json if call.as_json else _print_message
        try:
            follow_events(client, since, datastream, show, note, pause)
        except KeyboardInterrupt:
            return
    only = {"datastream": datastream} if datastream else {}
    found = client.get(EVENTS, limit=limit or _USUAL, **only)
    if call.printed_json(found):
        return
    for event in found:
        console().print(_dated(event), soft_wrap=True)


def line_of(event: Mapping[str, Any]) -> str:
    """Format an event as one line of text."""
    has_moved = bool(event.get("topic"))
    where = f"{event['topic']}-{event.get('kafka_partition')} " if has_moved else ""
    moved = f"{event.get('from_task') or '-'} -> {event.get('to_task') or '-'} " if has_moved else ""
    return f"epoch {event.get('plan_epoch')} {event.get('kind')}: {where}{moved}{event.get('sentence')}"


def _dated(event: Mapping[str, Any]) -> str:
    """Format an event as a line with its time and datastream."""
    from mirror.model.datastreams.pauses import moment_text

    about = f"{event['datastream']} " if event.get("datastream") else ""
    time_ms = event.get("time_ms")
    when = moment_text(time_ms) if isinstance(time_ms, int) else "?"
    return f"{when} {about}{line_of(event)}"


def _print_message(message: StreamMessage) -> None:
    text = f"gap: {message.gap}" if message.event is None else _dated(message.event)
    console().print(text, soft_wrap=True)


def _print_json(message: StreamMessage) -> None:
    document = {"gap": message.gap} if message.event is None else {"id": message.identity, **message.event}
    print_json(document, indent=None)


def incidents(
    datastream: Annotated[
        str, typer.Option(help="Show only incidents of this datastream.", autocompletion=complete_name)
    ] = "",
    lasting: Annotated[
        bool | None, typer.Option("--open/--closed", help="Show only open or only closed incidents.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Number of incidents.")] = 20,
    call: CallOptions = CallOptions(),
) -> None:
    """Show incidents with timeline and cost, newest first."""
    from mirror.model.datastreams.pauses import moment_text

    only: dict[str, Any] = {"datastream": datastream} if datastream else {}
    only |= {} if lasting is None else {"open": lasting}
    found = call.connect().get("/v1/incidents", limit=limit, **only)
    if call.printed_json(found):
        return
    for event in found:
        since, closed_ms = moment_text(event["opened_ms"]), event["closed_ms"]
        until = "open" if closed_ms is None else f"until {moment_text(closed_ms)}"
        if closed_ms is None and event.get("closing_ms") is not None:
            until = f"recovered, closing at {moment_text(event['closing_ms'])}"
        console().print(f"{event['datastream']} from {event['cluster']}: since {since}, {until}")
        console().print(f"  {_cost_of(event)}", soft_wrap=True)
        if event.get("gain") is not None:
            console().print(f"  {_gain_of(event['gain'])}", soft_wrap=True)
        for entry in event["timeline"]:
            when = moment_text(entry["time_ms"])
            console().print(f"  {when} {entry['phase']}: {entry['text']}", soft_wrap=True)


def _gain_of(gain: Mapping[str, Any]) -> str:
    """Format the seconds of breach that the first rebalance saved, as predicted and as measured."""
    predicted, lasted, saved = (_seconds_of(gain[name]) for name in ("predicted", "lasted", "saved"))
    return (
        f"rebalance, in seconds of breach: {predicted} predicted, {saved} saved; it lasted another {lasted}"
    )


def _seconds_of(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0f}"


def _late_of(incident: Mapping[str, Any]) -> list[str]:
    """Format the number of late records for each objective in a closed incident. Empty for an open incident,
    or if an older instance does not report late records."""
    if "deliveries" not in incident or incident["closed_ms"] is None:
        return []
    if incident["deliveries"] is None:
        return ["an unknown number of late records"]
    return [
        f"{late['late']:.0f} of {counted(late['records'], 'record')} later than {late['objective']}"
        for late in incident["deliveries"]
    ]


def _cost_of(incident: Mapping[str, Any]) -> str:
    """Format the cost of an incident. The cost is unknown if an older instance does not report it."""
    if "costs" not in incident:
        return "cost: unknown"
    parts = [f"{duration_text(incident['bad_seconds'])} bad"]
    if incident["unknown_seconds"]:
        parts.append(f"{duration_text(incident['unknown_seconds'])} unknown")
    for cost in incident["costs"]:
        spent = "an unknown part" if cost["spent"] is None else f"{cost['spent']:.1%}"
        parts.append(f"{spent} of the budget {cost['objective']}")
    parts += _late_of(incident)
    cause = f"cause: {incident['cause']}; " if incident["cause"] else ""
    return f"{cause}cost: {', '.join(parts)}"
