"""`headrace status`: show an overview of the service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import typer

from headrace.commands.calls import CallOptions
from headrace.commands.fleet.severity import is_by_request, severity_of, severity_of_state
from headrace.console.resources import instance_state, instance_troubles
from headrace.console.terminal import console, print_table
from headrace.errors import EXIT_FAILED
from mirror.model.reasons import reason_at
from mirror.wording import counted, duration_text, exact_duration_text

if TYPE_CHECKING:
    from headrace.console.client import RestClient

_PARTS: Final = {
    "instances": ("/v1/instances", {}),
    "datastreams": ("/v1/datastreams", {}),
    "movement": ("/v1/movement", {}),
    "incidents": ("/v1/incidents", {"open": True, "limit": 100}),
    "monitor": ("/v1/monitor", {}),
}
"""REST path and parameters of each requested resource, by its key in the output."""


def status(call: CallOptions = CallOptions()) -> None:
    """Show an overview of instances, datastreams and problems.

    Datastreams with the worst problem come first. Parts that cannot be fetched are shown as unknown. Exits
    with 1 if a datastream is late, stuck, quarantined or will lose records within hours, if an instance is
    unhealthy, if no instance has joined, or if a part is unknown; otherwise with 0.
    """
    found, unknown = _ask(call.connect())
    rows = list(_rows(found))
    if not call.printed_json(found | {"unknown": unknown}):
        for part, show in _SHOWN.items():
            if part in found:
                show(found)
        _show_datastreams(found, rows)
        for part, why in unknown.items():
            console().print(f"{part}: unknown: {why}", soft_wrap=True)
    instances = found.get("instances", ())
    is_well = all(instance["health"] and instance["health"]["is_well"] for instance in instances)
    if unknown or not instances or not is_well or any(row["severity"].is_bad for row in rows):
        raise typer.Exit(EXIT_FAILED)


def _ask(client: RestClient) -> tuple[dict[str, Any], dict[str, str]]:
    """Request all parts of the overview from the service. Return the received parts, and the errors of failed
    ones. Raises HeadraceError if no part was received."""
    from mirror.errors import HeadraceError, Unreachable

    found: dict[str, Any] = {}
    failures: dict[str, HeadraceError] = {}
    for part, (path, parameters) in _PARTS.items():
        try:
            found[part] = client.get(path, **parameters)
        except HeadraceError as error:
            failures[part] = error
            if isinstance(error, Unreachable) and not found:
                break  # no instance is reachable: every further part would time out too
    if not found:
        raise next(iter(failures.values()))
    return found, {part: str(error) for part, error in failures.items()}


def _show_instances(found: Mapping[str, Any]) -> None:
    instances = found["instances"]
    leader = next(
        (instance["name"] for instance in instances if (instance["health"] or {}).get("is_leading")), None
    )
    states = Counter(map(instance_state, instances)).most_common()
    counts = ", ".join(f"{number} {state}" for state, number in states) or "none has joined"
    console().print(f"instances: {counts}; {f'{leader} leads' if leader else 'no leader'}")
    for instance in instances:
        for trouble in instance_troubles(instance):
            console().print(f"  {instance['name']}: {trouble}", soft_wrap=True)


def _rows(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the table rows of datastreams, worst first."""
    movement = found.get("movement")
    judged = (
        {} if movement is None else {datastream["name"]: datastream for datastream in movement["datastreams"]}
    )
    late = {incident["datastream"]: incident for incident in found.get("incidents", ())}
    rows = [
        _row(datastream, judged.get(datastream["name"]), late.get(datastream["name"]))
        for datastream in found.get("datastreams", ())
    ]
    yield from sorted(rows, key=lambda row: (row["severity"], row["name"]))


def _show_datastreams(found: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    movement = found.get("movement")
    if "datastreams" not in found:
        return
    if not rows:
        console().print("datastreams: none (create one with headrace datastream create)")
        return
    console().print()
    print_table(counted(len(rows), "datastream"), ["name", "status", "owner", "objective", "problems"], rows)
    if movement is not None and not movement["is_complete"]:
        console().print("not all instances responded: the worst problems may be missing")


def _row(
    datastream: Mapping[str, Any], movement: Mapping[str, Any] | None, incident: Mapping[str, Any] | None
) -> dict[str, Any]:
    again = _recovered_ms(incident) if incident else None
    return {
        "name": datastream["name"],
        "status": datastream["status"],
        "owner": datastream["owner"],
        "objective": _objective(datastream),
        "problems": list(problems_of(datastream, movement, incident, again)),
        "severity": severity_of(datastream, movement, incident, has_recovered=again is not None),
    }


def _objective(datastream: Mapping[str, Any]) -> list[str]:
    """Format the latency objectives of a datastream."""
    found = datastream["objectives"] or ([datastream["objective"]] if datastream["objective"] else [])
    return [f"p{each['percentile']:g} within {exact_duration_text(each['milliseconds'])}" for each in found]


def problems_of(
    datastream: Mapping[str, Any],
    movement: Mapping[str, Any] | None,
    incident: Mapping[str, Any] | None,
    again_ms: int | None,
) -> Iterator[str]:
    """Yield the problems of a datastream, worst first. A reason that several problems share is not
    repeated."""
    if movement and (loss := movement["loss"]) and loss["is_near"]:
        partitions, when = counted(loss["partitions"], "partition"), duration_text(loss["seconds"])
        yield f"loses records of {partitions} in {when}, first {loss['worst']}"
    problem = datastream["problem"]["reason"] if datastream["problem"] else ""
    if problem:
        yield problem
    if incident:
        yield _incident_text(incident, again_ms)
    states = movement["states"] if movement else ()
    for state in sorted(states, key=lambda found: severity_of_state(found["state"])):
        is_known = state["reason"] in problem or (datastream["halt"] and is_by_request(state["state"]))
        reason = "" if is_known else f": {reason_at(state['reason'], state.get('offset'))}"
        yield f"{state['partitions']} {state['state']}, longest {state['worst']}{reason}"
    if datastream["halt"]:
        yield f"{datastream['status'].lower()}: {datastream['halt']['reason'] or 'no reason given'}"


def _incident_text(incident: Mapping[str, Any], again_ms: int | None) -> str:
    from mirror.model.datastreams.pauses import moment_text

    summary = "late" if incident["is_late"] else ", ".join(incident["matters"]) or "incident"
    cause = f", cause: {incident['cause']}" if incident["cause"] else ""
    over = "" if again_ms is None else f", objective met again since {moment_text(again_ms)}"
    if incident.get("closing_ms") is not None:
        over += f", recovered, closing at {moment_text(incident['closing_ms'])}"
    return f"{summary} since {moment_text(incident['opened_ms'])}{over}{cause}"


def _recovered_ms(incident: Mapping[str, Any]) -> int | None:
    """Return the time since which an open incident's objective is met again (epoch ms), or None."""
    changes = [
        entry for entry in incident["timeline"] if entry["phase"] in ("detected", "relapsed", "recovered")
    ]
    return changes[-1]["time_ms"] if changes and changes[-1]["phase"] == "recovered" else None


def _show_monitor(found: Mapping[str, Any]) -> None:
    monitor = found["monitor"]
    acting = "may act" if monitor["acting"]["is_on"] else "may not act"
    console().print(
        f"monitor: {monitor['holder'] or 'not running, objectives are not checked'}; {acting};"
        f" {counted(len(monitor['acts']), 'rebalance')} requested in 24 hours"
    )


_SHOWN: Final[Mapping[str, Callable[[Mapping[str, Any]], None]]] = {
    "instances": _show_instances,
    "monitor": _show_monitor,
}
