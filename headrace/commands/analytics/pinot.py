"""`headrace pinot …`: tables and named queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands.options import ConfigOption, JsonOption
from headrace.console.durations import milliseconds
from headrace.console.option_groups import CommandGroup
from headrace.console.terminal import console, print_json, print_table

if TYPE_CHECKING:
    from headrace.settings import HeadraceSettings
    from pinot.deployment.deploy import SchemaChange
    from pinot.schemas import Placement
    from pinot.tables import Table

app = CommandGroup(no_args_is_help=True)


@app.command()
def apply(
    config: ConfigOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show changes without applying them.")] = False,
    recreate: Annotated[
        list[str] | None,
        typer.Option(help="Drop this table with its rows, and ingest its topic again; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create or update topics and tables to match definitions.

    Idempotent. Never drops rows unless --recreate is given."""
    from headrace.settings import load_settings
    from pinot.deployment import deploy
    from pinot.deployment.controller import PinotController
    from pinot.tables import table_named

    settings = load_settings(config)
    for name in recreate or ():
        table_named(name)
    wanted = placements(settings)
    if not dry_run:
        _create_topics(settings, wanted)
    controller = PinotController(settings.pinot)
    try:
        step = deploy.plan if dry_run else deploy.apply
        changes = step(controller, wanted, tuple(recreate or ()))
    finally:
        controller.close()
    _show(changes, as_json)


@app.command()
def query(
    name: Annotated[str | None, typer.Argument(help="Query (default: list all).")] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="Parameter of the query; repeatable."),
    ] = None,
    last: Annotated[str, typer.Option(help="Length of the time range, such as 90s, 10m, 6h or 2d.")] = "1h",
    at: Annotated[
        int | None, typer.Option(metavar="EPOCH_MS", help="End of the time range (default: now).")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a named query on Pinot."""
    from headrace.settings import load_settings
    from mirror.adapters.system_clock import SystemClock
    from pinot import catalogue
    from pinot.client import PinotClient
    from pinot.time_range import TimeRange

    if name is None:
        _list(catalogue.questions(), as_json)
        return
    parameters = dict(_pair(text) for text in param or ())
    length_ms = milliseconds(last)
    client = PinotClient(load_settings(config).pinot)
    try:
        when = TimeRange.up_to(SystemClock().now_ms() if at is None else at, length_ms)
        rows = catalogue.ask(client, name, when, parameters)
    finally:
        client.close()
    if as_json:
        print_json(rows)
    elif rows:
        shown = [column for column in rows[0] if column != "counts"]
        print_table(name, shown, [{key: _readable(row[key]) for key in shown} for row in rows])
    else:
        console().print("no rows in this time range")


def placements(settings: HeadraceSettings) -> dict[Table, Placement]:
    """Return, for each table, where Pinot reads and stores it: topic, retention and segments."""
    from pinot.deployment.java_kafka import by_reference, client_properties
    from pinot.schemas import Placement
    from pinot.tables import (
        AUDIT_WINDOWS,
        INCIDENTS,
        MIRROR_METRICS,
        PARTITION_METRICS,
        PARTITION_METRICS_HOURLY,
        PLACEMENT_EVENTS,
        TABLES,
    )

    pinot, stream = settings.pinot, settings.clusters[settings.pinot.stream_cluster]
    properties = client_properties(stream)
    topics = {
        PARTITION_METRICS.name: settings.pmp.topic,
        PARTITION_METRICS_HOURLY.name: settings.pmp.hourly_topic,
        MIRROR_METRICS.name: settings.mirror.metrics_topic,
        PLACEMENT_EVENTS.name: settings.mirror.events_topic,
        AUDIT_WINDOWS.name: settings.mirror.audit.topic or AUDIT_WINDOWS.topic,
        INCIDENTS.name: settings.monitor.incident_rows_topic or INCIDENTS.topic,
    }
    return {
        table: Placement(
            bootstrap_servers=pinot.stream_bootstrap_servers or stream.bootstrap_servers,
            topic=topics[table.name],
            retention_days=pinot.days_kept(table),
            replication=pinot.replication,
            segment_rows=pinot.segment_rows,
            segment_hours=pinot.segment_hours,
            kafka_properties=by_reference(properties) if pinot.secrets_by_reference else properties,
            upsert_options=pinot.upsert_options,
        )
        for table in TABLES
    }


def _create_topics(settings: HeadraceSettings, wanted: dict[Table, Placement]) -> None:
    """Create missing topics. Otherwise, brokers would create them with the default number of partitions."""
    from mirror.adapters.kafka_admin import KafkaAdmin
    from mirror.model.topics import TopicDescription

    admin = KafkaAdmin(settings.clusters[settings.pinot.stream_cluster])
    names = [*(placement.topic for placement in wanted.values()), settings.pmp.dead_letter_topic]
    present = admin.list_topics()
    for name in names:
        if name not in present:
            admin.create(TopicDescription(name, settings.pmp.topic_partitions))


def _pair(text: str) -> tuple[str, str]:
    from mirror.errors import InvalidRequest

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidRequest(
            f"invalid parameter {text!r}", advice="write --param NAME=VALUE, such as --param cluster=source"
        )
    return name, value


def _list(found: list[Any], as_json: bool) -> None:
    rows = [
        {
            "query": q.name,
            "answers": q.summary,
            "needs": ", ".join(q.required),
            "takes": ", ".join(q.optional),
        }
        for q in found
    ]
    if as_json:
        print_json(rows)
    else:
        print_table("named queries", ("query", "answers", "needs", "takes"), rows)


def _show(changes: list[SchemaChange], as_json: bool) -> None:
    rows = [
        {
            "table": change.table,
            "document": change.document,
            "step": str(change.step),
            "differences": list(change.differences),
        }
        for change in changes
    ]
    if as_json:
        print_json(rows)
    else:
        print_table("Pinot", ("table", "document", "step", "differences"), rows)


def _readable(value: Any) -> Any:
    return f"{value:,.1f}" if isinstance(value, float) else value
