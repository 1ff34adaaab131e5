"""`headrace monitor` and `headrace monitor advise`: run a monitor, and show the sizing advice."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands.analytics.metrics_page import serve_metrics
from headrace.commands.calls import CallOptions
from headrace.commands.options import AtOption, ConfigOption, JsonOption
from headrace.console.option_groups import CommandGroup
from headrace.console.terminal import console, print_json, print_table
from headrace.process.stop_signals import on_stop_signals
from mirror.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mirror.model.identifiers import DatastreamName
    from monitor.latency import LatencyVerdict


app = CommandGroup()


@app.callback(invoke_without_command=True)
def monitor(
    context: typer.Context,
    once: Annotated[
        bool, typer.Option(help="Run one cycle without acting; exit 1 on a breach or a halt.")
    ] = False,
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare latencies with objectives; rebalance if that helps."""
    if context.invoked_subcommand is not None:
        return
    from headrace.oncall.canaries import rest_paths
    from headrace.oncall.monitors import build_monitor, service_client
    from headrace.oncall.run import MonitoredService, MonitorRun, MonitorTerm
    from headrace.process.logs import configure_logs
    from headrace.settings import load_settings
    from monitor.adapters.rest_service import RestAdvice
    from monitor.alerts.alert_metrics import AlertMetrics
    from monitor.alerts.audits import audits_of_answer
    from monitor.alerts.retirements import retirements_of_answer
    from monitor.latency import ObjectiveStatus

    settings = load_settings(config)
    configure_logs(settings.logging, process="monitor")
    if not once:
        metrics = AlertMetrics()

        def term() -> MonitorTerm:
            client = partial(service_client, settings, at)
            service = MonitoredService(
                build_monitor(settings, at),
                RestAdvice(client()),
                rest_paths(client()),
                partial(audits_of_answer, client()),
                partial(retirements_of_answer, client()),
            )
            return MonitorTerm(settings, config, at, service, metrics)

        running = MonitorRun(term, settings.monitor.interval_seconds)
        serve_metrics(
            "monitor", settings.monitor.metrics_host, settings.monitor.metrics_port, metrics.registry
        )
        on_stop_signals(running.stop)
        running.run()
        return
    cycle = build_monitor(settings, at)
    findings = cycle.judge_only()
    if as_json:
        print_json({name: asdict(verdict) for name, verdict in findings.items()})
    else:
        _show(findings)
        if cycle.remark:
            console().print(f"measurements come from the metrics topic: {cycle.remark}")
    if any(
        verdict.standing in {ObjectiveStatus.BREACHED, ObjectiveStatus.HALTED}
        for verdict in findings.values()
    ):
        raise typer.Exit(1)


def _show(verdicts: Mapping[DatastreamName, LatencyVerdict]) -> None:
    for name, verdict in verdicts.items():
        console().print(f"{name}: {verdict.standing}, {verdict.sentence}")
        if verdict.cause:
            console().print(f"  {verdict.cause}")
        for budget in verdict.budgets:
            console().print(f"  {budget.sentence}")


@app.command()
def advise(call: CallOptions = CallOptions()) -> None:
    """Show the tasks and instances needed now and in coming hours."""
    found = call.connect().get("/v1/advice")
    if call.printed_json(found):
        return
    console().print(found["sentence"])
    if found["why"]:
        console().print(f"unknown: {found['why']}")
    if found["lower_since_ms"] is not None:
        console().print(
            f"{counted(found['lower_tasks'], 'task has', 'tasks have')} "
            "been sufficient for a while; still observing before the advice changes"
        )
    if (sums := found["sums"]) is not None:
        console().print(_sums(sums))
    for span in ("day", "week"):
        console().print(_past(span, found[f"past_{span}"]))
    rows = [
        {
            "datastream": group["group"],
            "tasks": group["tasks"],
            "now": group["now"],
            "most": max((hour["most_tasks"] for hour in group["coming"]), default=None),
            "covered": group["covered"],
            "off_by": group["error"],
            "why": group["why"],
        }
        for group in found["groups"]
    ]
    if rows:
        print_table("tasks: current, needed now, peak in the coming hours", list(rows[0]), rows)


def _sums(sums: Mapping[str, Any]) -> str:
    text = (
        f"the next {sums['hours']} h: {_needed(sums['task_hours'], sums['needed_task_hours'], 'task-hour')}"
    )
    if sums["needed_instance_hours"] is not None:
        text += f"; {_needed(sums['instance_hours'], sums['needed_instance_hours'], 'instance-hour')}"
    return text


def _needed(there: int, needed: int, unit: str) -> str:
    stand = counted(there, f"{unit} planned", f"{unit}s planned")
    return f"{stand}, {counted(needed, 'is needed', 'are needed')}"


def _past(span: str, need: Mapping[str, Any] | None) -> str:
    if need is None:
        return f"need of the last {span}: unknown"
    needed, there = need["needed_task_hours"], need["task_hours"]
    text = f"the last {span} ({need['hours']} h of data): "
    text += f"{counted(needed, 'task-hour was', 'task-hours were')} needed; "
    text += f"the current number takes {there}, the number of the busiest hour {need['peak_task_hours']}"
    if needed < there:
        text += f"; hourly sizing would save {there - needed} ({(there - needed) / there:.0%})"
    return text
