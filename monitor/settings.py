"""What an operator can set about the monitor."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from mirror.model.datastreams.objectives.mode import Mode
from mirror.model.sizing.freeze import read_freeze
from mirror.options import Seconds, Settings, read_by
from monitor.alerts.settings import AlertSettings
from monitor.burn.rates import read_rule


class MeasurementPlace(StrEnum):
    """Where measurements are read: Pinot, the topic that instances write them to (Pinot is not needed then),
    or Pinot and, while that does not answer, the topic."""

    EITHER = "either"
    PINOT = "pinot"
    TOPIC = "topic"


class MonitorSettings(Settings):
    """How latency is judged and when a rebalance is asked for."""

    enabled: bool = True
    """Run the monitor in the instance that leads. `headrace monitor` then leaves the judging to it."""
    act: bool = True
    """Whether a rebalance may be asked for at all. `PATCH /v1/monitor` forbids it without a restart."""
    mode: Mode = Mode.ACT
    """What is done about a breach that a rebalance can help: `act` asks for it, `observe` only says what it
    would have asked for. A datastream's `monitor` counts before this."""
    service: str = ""
    """`host:port` of an instance's REST; empty: as in `api`."""
    measurements: MeasurementPlace = MeasurementPlace.EITHER
    """Where measurements are read: `pinot`, `topic` (`mirror.metrics_topic`, without Pinot), or `either`:
    Pinot, and the topic while Pinot does not answer."""
    interval_seconds: Seconds = 10.0
    """Time between two turns."""
    window_seconds: Seconds = 60.0
    """How much of the past a verdict looks at."""
    open_after: int = Field(default=2, ge=1)
    """Breached verdicts in a row that open an incident."""
    close_after: int = Field(default=3, ge=1)
    """Good verdicts in a row that close it."""
    close_seconds: Seconds = 600.0
    """For how long they must have been good: what comes and goes near its objective is one incident."""
    cooldown_seconds: Seconds = 120.0
    """Least time between two rebalances of a datastream."""
    most_a_day: int = Field(default=24, ge=0, le=1_000)
    """Rebalances that are asked for in any 24 hours, of all datastreams."""
    most_a_day_of_each: int = Field(default=8, ge=0, le=1_000)
    """Rebalances of one datastream in any 24 hours."""
    freeze_windows: list[Annotated[str, read_by(read_freeze)]] = Field(default=[], max_length=50)
    """Times in which no rebalance is asked for: `Fri 18:00 to Mon 06:00 Europe/Berlin`, `22:00 to 06:00`,
    `2026-12-20 18:00 to 2027-01-03 06:00`. Without a time zone they are UTC."""
    burn_rates: list[Annotated[str, read_by(read_rule)]] = Field(
        default=["14.4 over 1 h and 5 m", "6 over 6 h and 30 m", "1 over 3 d"]
    )
    """How fast the error budget of an objective may not be used up: a multiple of the rate that would use it
    up in exactly its period, over a long window and a short one, or over one."""
    minimum_records: int = Field(default=100, ge=1)
    """Records of a window without which the share of those that were late says nothing."""
    metrics_port: int = Field(default=0, ge=0, le=65535)
    """Port of the monitor's Prometheus metrics; 0 means none."""
    metrics_host: str = "127.0.0.1"
    """Address of that port; others than loopback make it reachable from the network."""
    incidents_topic: str = "headrace-incidents"
    """Compacted topic of incidents at `mirror.metrics_cluster`; empty: they end with the monitor."""
    incidents_days: int = Field(default=90, ge=1)
    """How long the topic keeps an incident after it changed last, as it is made."""
    incident_rows_topic: str = "headrace-incident-rows"
    """Topic of the same incidents as rows for Pinot's table `incidents`; empty: there are none."""
    alerts: AlertSettings = AlertSettings()

    @model_validator(mode="after")
    def _consistent(self) -> MonitorSettings:
        if self.window_seconds < self.interval_seconds:
            raise ValueError("window_seconds must not be shorter than interval_seconds")
        return self
