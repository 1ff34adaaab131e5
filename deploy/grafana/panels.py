"""Building blocks of boards: numbers, lines over time and tables, from Prometheus or Pinot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from grafana_foundation_sdk.builders import common as common_builder
from grafana_foundation_sdk.builders import dashboard as board_builder
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

PROMETHEUS: Final = dashboard.DataSourceRef(type_val="prometheus", uid="${prometheus}")
PINOT: Final = dashboard.DataSourceRef(type_val="startree-pinot-datasource", uid="${pinot}")
_HEIGHT: Final = 8


Row = tuple[str, Sequence[Builder[dashboard.Panel]]]
"""Heading of a row, and its panels."""


class PanelSeries(NamedTuple):
    """An expression, and the legend of its series."""

    expression: str
    legend: str


class AxisLimits(NamedTuple):
    """Thresholds for yellow and red. `is_least`: they are lower bounds of the healthy range."""

    yellow: float
    red: float
    is_least: bool = False


class PinotQuery(Dataquery):
    """A query in Pinot's SQL; `${__from}` and `${__to}` are the board's time range in epoch milliseconds."""

    def __init__(self, table_name: str, text: str, time_column: str = "") -> None:
        self.table_name = table_name
        self.text = text
        self.time_column = time_column

    def to_json(self) -> dict[str, object]:
        """Return the form that the plugin stores."""
        shown: dict[str, object] = {"displayType": "TABLE"}
        if self.time_column:
            shown = {
                "displayType": "TIMESERIES",
                "timeColumnAlias": self.time_column,
                "timeColumnFormat": "1:MILLISECONDS:EPOCH",
                "metricColumnAlias": "value",
            }
        return {
            "refId": "A",
            "datasource": {"type": PINOT.type_val, "uid": PINOT.uid},
            "queryType": "PinotQL",
            "editorMode": "Code",
            "tableName": self.table_name,
            "pinotQlCode": self.text,
            **shown,
        }


class _Query(Builder[Dataquery]):
    def __init__(self, query: Dataquery) -> None:
        self._query = query

    def build(self) -> Dataquery:
        return self._query


def number(
    title: str, expression: str, unit: str, description: str, limits: AxisLimits | None = None
) -> stat.Panel:
    """Return a panel with one current value."""
    found = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(PROMETHEUS)
        .unit(unit)
        .height(4)
        .span(4)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(common_builder.ReduceDataOptions().calcs(["lastNotNull"]))
        .no_value("no data")
        .with_target(prometheus.Dataquery().expr(expression).instant().ref_id("A"))
    )
    return found.thresholds(_thresholds(limits)) if limits else found


def lines(
    title: str, series: Sequence[PanelSeries], unit: str, description: str, width: int = 12
) -> timeseries.Panel:
    """Return a panel with lines over time."""
    found = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(PROMETHEUS)
        .unit(unit)
        .height(_HEIGHT)
        .span(width)
        .fill_opacity(10)
        .legend(
            common_builder.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.TABLE)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(common_builder.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    )
    for place, one in enumerate(series):
        query = prometheus.Dataquery().expr(one.expression).range().legend_format(one.legend)
        found = found.with_target(query.ref_id(chr(ord("A") + place)))
    return found


def listing(title: str, expression: str, unit: str, description: str, width: int = 12) -> table.Panel:
    """Return a table of series with current values."""
    query = prometheus.Dataquery().expr(expression).instant().format(PromQueryFormat.TABLE).ref_id("A")
    hidden: Any = {"excludeByName": {"Time": True}, "indexByName": {}, "renameByName": {"Value": title}}
    return (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(PROMETHEUS)
        .unit(unit)
        .height(_HEIGHT)
        .span(width)
        .with_target(query)
        .with_transformation(dashboard.DataTransformerConfig(id_val="organize", options=hidden))
    )


def pinot_table(
    title: str, query: PinotQuery, description: str, units: dict[str, str], width: int = 24
) -> table.Panel:
    """Return a table with the result of a Pinot query. `units`: by column."""
    found = (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(PINOT)
        .height(_HEIGHT + 4)
        .span(width)
        .with_target(_Query(query))
    )
    for column, unit in units.items():
        found = found.override_by_name(column, [dashboard.DynamicConfigValue("unit", unit)])
    return found


def pinot_lines(
    title: str, query: PinotQuery, unit: str, description: str, width: int = 12
) -> timeseries.Panel:
    """Return lines over time from a Pinot query with the columns time, `value` and the line's name."""
    return (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(PINOT)
        .unit(unit)
        .height(_HEIGHT + 2)
        .span(width)
        .fill_opacity(5)
        .with_target(_Query(query))
    )


def board(name: str, title: str, description: str, rows: Sequence[Row]) -> board_builder.Dashboard:
    """Return a board with a variable for Prometheus, and links to the other boards."""
    found = (
        board_builder.Dashboard(title)
        .uid(f"headrace-{name}")
        .description(description)
        .tags(["headrace"])
        .timezone("browser")
        .time("now-3h", "now")
        .refresh("30s")
        .readonly()
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .with_variable(board_builder.DatasourceVariable("prometheus").label("Prometheus").type("prometheus"))
        .link(
            board_builder.DashboardLink("Headrace")
            .type(dashboard.DashboardLinkType.DASHBOARDS)
            .tags(["headrace"])
            .as_dropdown(True)
            .keep_time(True)
        )
    )
    for heading, panels in rows:
        found = found.with_row(board_builder.Row(heading))
        for panel in panels:
            found = found.with_panel(panel)
    return found


def _thresholds(limits: AxisLimits) -> board_builder.ThresholdsConfig:
    first, last = ("red", "green") if limits.is_least else ("green", "red")
    middle = (limits.red, limits.yellow) if limits.is_least else (limits.yellow, limits.red)
    steps = [
        dashboard.Threshold(value=None, color=first),
        dashboard.Threshold(value=middle[0], color="yellow"),
        dashboard.Threshold(value=middle[1], color=last),
    ]
    return board_builder.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)
