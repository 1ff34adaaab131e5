"""`headrace status`: the whole service at a glance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from headrace.commands.datastreams.connection import connect
from headrace.commands.options import AtOption, ConfigOption, JsonOption
from headrace.console.resources import instance_state, instance_troubles
from headrace.console.terminal import console, print_json, print_table
from mirror.wording import counted

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
    """Show the service at a glance: instances, datastreams, what is the matter with them, who judges.

    A part that does not answer is said to be unknown, and the rest is shown."""
    found, unknown = _ask(connect(at, config))
    if as_json:
        print_json(found | {"unknown": unknown})
        return
    for part, show in _SHOWN.items():
        if part in found:
            show(found)
    for part, why in unknown.items():
        console().print(f"{part}: unknown: {why}", soft_wrap=True)


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


def _show_datastreams(found: Mapping[str, Any]) -> None:
    datastreams, movement = found["datastreams"], found.get("movement")
    if not datastreams:
        console().print("datastreams: none (headrace datastream create makes one)")
        return
    judged = None if movement is None else {one["name"]: one for one in movement["datastreams"]}
    late = {one["datastream"]: one for one in found.get("incidents", ())}
    rows = [_row(one, judged, late) for one in datastreams]
    rows.sort(key=lambda row: (not row["matter"], row["name"]))
    console().print()
    print_table(counted(len(rows), "datastream"), ["name", "status", "owner", "objective", "matter"], rows)
    if movement is not None and not movement["is_complete"]:
        console().print("not all instances were heard: what is missing may be the worst")


def _row(one: Mapping[str, Any], judged: Mapping[str, Any] | None, late: Mapping[str, Any]) -> dict[str, Any]:
    name = one["name"]
    return {
        "name": name,
        "status": one["status"],
        "owner": one["owner"],
        "objective": _objective(one),
        "matter": list(_matters(one, (judged or {}).get(name), late.get(name))),
    }


def _objective(one: Mapping[str, Any]) -> list[str]:
    said = [f"p{each['percentile']:g} within {each['milliseconds']} ms" for each in one["objectives"]]
    if not said and (single := one["objective"]):
        said = [f"p{single['percentile']:g} within {single['milliseconds']} ms"]
    return said


def _matters(
    one: Mapping[str, Any], movement: Mapping[str, Any] | None, incident: Mapping[str, Any] | None
) -> Iterator[str]:
    from mirror.model.datastreams.pauses import moment_text

    if one["problem"]:
        yield one["problem"]["reason"]
    if one["halt"]:
        yield f"{one['status'].lower()}: {one['halt']['reason'] or 'no reason was given'}"
    if incident:
        what = "late" if incident["is_late"] else ", ".join(incident["matters"]) or "incident"
        cause = f", cause: {incident['cause']}" if incident["cause"] else ""
        again = _recovered_ms(incident)
        over = "" if again is None else f", within the objective again since {moment_text(again)}"
        yield f"{what} since {moment_text(incident['opened_ms'])}{over}{cause}"
    if movement and (loss := movement["loss"]):
        yield (
            f"loses records of {counted(loss['partitions'], 'partition')} in "
            f"{loss['seconds']:.0f} s: {loss['worst']}"
        )
    for state in movement["states"] if movement else ():
        yield f"{state['partitions']} {state['state']}, for longest {state['worst']}: {state['reason']}"


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
    "datastreams": _show_datastreams,
}
