"""`headrace status`: the whole service at a glance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import typer

from headrace.commands.datastreams.connection import connect
from headrace.commands.fleet.severity import severity_of, severity_of_state
from headrace.commands.options import AtOption, ConfigOption, JsonOption
from headrace.console.resources import instance_state, instance_troubles
from headrace.console.terminal import console, print_json, print_table
from headrace.errors import EXIT_FAILED
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
"""What is asked for, with its parameters, by what it is called in the answer."""


def status(at: AtOption = "", config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show the service at a glance: instances, datastreams, their problems, the monitor.

    Datastreams with the worst problem come first; a part that does not answer is unknown. The exit status is
    1 while a datastream is late, loses records within hours, does not move or is set aside, while an instance
    is not well, and where a part is unknown; else 0."""
    found, unknown = _ask(connect(at, config))
    rows = list(_rows(found))
    if as_json:
        print_json(found | {"unknown": unknown})
    else:
        for part, show in _SHOWN.items():
            if part in found:
                show(found)
        _show_datastreams(found, rows)
        for part, why in unknown.items():
            console().print(f"{part}: unknown: {why}", soft_wrap=True)
    is_well = all(one["health"] and one["health"]["is_well"] for one in found.get("instances", ()))
    if unknown or not is_well or any(row["severity"].is_bad for row in rows):
        raise typer.Exit(EXIT_FAILED)


def _ask(client: RestClient) -> tuple[dict[str, Any], dict[str, str]]:
    """What each part answers, and why some do not. Raises HeadraceError where none does."""
    from mirror.errors import HeadraceError, Unreachable

    found: dict[str, Any] = {}
    failures: dict[str, HeadraceError] = {}
    for part, (path, parameters) in _PARTS.items():
        try:
            found[part] = client.get(path, **parameters)
        except HeadraceError as error:
            failures[part] = error
            if isinstance(error, Unreachable) and not found:
                break  # nobody is there: each further part would wait as long
    if not found:
        raise next(iter(failures.values()))
    return found, {part: str(error) for part, error in failures.items()}


def _show_instances(found: Mapping[str, Any]) -> None:
    instances = found["instances"]
    leader = next((one["name"] for one in instances if (one["health"] or {}).get("is_leading")), None)
    states = Counter(map(instance_state, instances)).most_common()
    counts = ", ".join(f"{number} {state}" for state, number in states)
    console().print(f"instances: {counts}; {f'{leader} leads' if leader else 'nobody leads'}")
    for one in instances:
        for trouble in instance_troubles(one):
            console().print(f"  {one['name']}: {trouble}", soft_wrap=True)


def _rows(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Datastreams, the worst first."""
    movement = found.get("movement")
    judged = {} if movement is None else {one["name"]: one for one in movement["datastreams"]}
    late = {one["datastream"]: one for one in found.get("incidents", ())}
    rows = [_row(one, judged.get(one["name"]), late.get(one["name"])) for one in found.get("datastreams", ())]
    yield from sorted(rows, key=lambda row: (row["severity"], row["name"]))


def _show_datastreams(found: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    movement = found.get("movement")
    if "datastreams" not in found:
        return
    if not rows:
        console().print("datastreams: none (headrace datastream create makes one)")
        return
    console().print()
    print_table(counted(len(rows), "datastream"), ["name", "status", "owner", "objective", "matter"], rows)
    if movement is not None and not movement["is_complete"]:
        console().print("not all instances were heard: what is missing may be the worst")


def _row(
    one: Mapping[str, Any], movement: Mapping[str, Any] | None, incident: Mapping[str, Any] | None
) -> dict[str, Any]:
    again = _recovered_ms(incident) if incident else None
    return {
        "name": one["name"],
        "status": one["status"],
        "owner": one["owner"],
        "objective": _objective(one),
        "matter": list(_matters(one, movement, incident, again)),
        "severity": severity_of(one, movement, incident, has_recovered=again is not None),
    }


def _objective(one: Mapping[str, Any]) -> list[str]:
    """Its objectives, else the one of a definition that has no budget."""
    found = one["objectives"] or ([one["objective"]] if one["objective"] else [])
    return [f"p{each['percentile']:g} within {exact_duration_text(each['milliseconds'])}" for each in found]


def _matters(
    one: Mapping[str, Any],
    movement: Mapping[str, Any] | None,
    incident: Mapping[str, Any] | None,
    again_ms: int | None,
) -> Iterator[str]:
    """What is wrong, the worst first."""
    if movement and (loss := movement["loss"]) and loss["is_near"]:
        partitions, when = counted(loss["partitions"], "partition"), duration_text(loss["seconds"])
        yield f"loses records of {partitions} in {when}: {loss['worst']}"
    if one["problem"]:
        yield one["problem"]["reason"]
    if incident:
        yield _incident_text(incident, again_ms)
    states = movement["states"] if movement else ()
    for state in sorted(states, key=lambda found: severity_of_state(found["state"])):
        yield f"{state['partitions']} {state['state']}, for longest {state['worst']}: {state['reason']}"
    if one["halt"]:
        yield f"{one['status'].lower()}: {one['halt']['reason'] or 'no reason was given'}"


def _incident_text(incident: Mapping[str, Any], again_ms: int | None) -> str:
    from mirror.model.datastreams.pauses import moment_text

    what = "late" if incident["is_late"] else ", ".join(incident["matters"]) or "incident"
    cause = f", cause: {incident['cause']}" if incident["cause"] else ""
    over = "" if again_ms is None else f", within the objective again since {moment_text(again_ms)}"
    if incident.get("closing_ms") is not None:
        over += f", recovered, closing at {moment_text(incident['closing_ms'])}"
    return f"{what} since {moment_text(incident['opened_ms'])}{over}{cause}"


def _recovered_ms(incident: Mapping[str, Any]) -> int | None:
    """Since when it is late no more, where that has to last before the incident is over; epoch ms."""
    turns = [one for one in incident["timeline"] if one["phase"] in ("detected", "relapsed", "recovered")]
    return turns[-1]["time_ms"] if turns and turns[-1]["phase"] == "recovered" else None


def _show_monitor(found: Mapping[str, Any]) -> None:
    monitor = found["monitor"]
    acting = "may act" if monitor["acting"]["is_on"] else "may not act"
    console().print(
        f"monitor: {monitor['holder'] or 'none runs, nothing is judged'}; {acting};"
        f" {counted(len(monitor['acts']), 'rebalance')} asked for in 24 hours"
    )


_SHOWN: Final[Mapping[str, Callable[[Mapping[str, Any]], None]]] = {
    "instances": _show_instances,
    "monitor": _show_monitor,
}
