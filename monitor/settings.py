"""Settings of the monitor."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from mirror.coordination.monitors.state import LEASE_SECONDS
from mirror.model.capacity.freeze import read_freeze
from mirror.model.datastreams.objectives import Mode
from mirror.options import Seconds, Settings, read_by
from monitor.alerts.settings import AlertSettings
from monitor.burn.rates import read_rule
from monitor.usage_bill import PriceTable


class MeasurementPlace(StrEnum):
    """Source from which the monitor reads measurements.

    `pinot`, the topic to which instances write (without Pinot), or Pinot with the topic as fallback.
    """

    EITHER = "either"
    PINOT = "pinot"
    TOPIC = "topic"


class TransferPriceSettings(Settings):
    """Price of transfers from one cluster to another."""

    source: str
    """Alias of the source cluster."""
    destination: str
    """Alias of the destination cluster."""
    per_gb: float = Field(ge=0, le=1_000_000)
    """Price of 10^9 bytes."""


class UsageSettings(Settings):
    """Prices from which `/v1/usage` and `headrace usage` compute costs."""

    currency: str = Field(default="USD", min_length=1, max_length=20)
    """Name of the currency, for display."""
    per_gb: float | None = Field(default=None, ge=0, le=1_000_000)
    """Price per 10^9 bytes transferred between two clusters that are not in `prices`. If unset, the cost of
    transfers without a price is unknown."""
    prices: dict[str, TransferPriceSettings] = Field(default_factory=dict)
    """Prices between two clusters. The keys are arbitrary names."""

    @model_validator(mode="after")
    def _no_pair_twice(self) -> UsageSettings:
        pairs = [(price.source, price.destination) for price in self.prices.values()]
        for source, destination in pairs:
            if pairs.count((source, destination)) > 1:
                raise ValueError(f"prices: {source} to {destination} has two prices; remove one")
        return self

    def table(self) -> PriceTable:
        """Return a table with the price of transfers from each source to each destination."""
        pairs = {(price.source, price.destination): price.per_gb for price in self.prices.values()}
        return PriceTable(self.per_gb, pairs)


class MonitorSettings(Settings):
    """Settings of the monitor: evaluation of latency, and conditions for rebalances."""

    enabled: bool = True
    """Run the monitor in the instance that is leader. `headrace monitor` exits immediately if the leader runs
    the monitor."""
    act: bool = True
    """Permit the monitor to request rebalances. `PATCH /v1/monitor` forbids or allows rebalances without a
    restart."""
    mode: Mode = Mode.ACT
    """Reaction to a breach that a rebalance can fix: `act` requests the rebalance, `observe` only reports it.
    The option `monitor` of a datastream takes precedence."""
    service: str = ""
    """`host:port` of the REST interface of an instance. If empty, the address in `api`."""
    measurements: MeasurementPlace = MeasurementPlace.EITHER
    """Source of measurements: `pinot`, `topic` (`mirror.metrics_topic`, without Pinot), or `either` (Pinot,
    or the topic while Pinot does not respond)."""
    interval_seconds: Seconds = Field(default=10.0, le=LEASE_SECONDS / 2)
    """Time between two evaluations of all datastreams. An evaluation renews the lease of the active monitor,
    which lasts for 30 seconds."""
    window_seconds: Seconds = 60.0
    """Time range that a verdict covers."""
    open_after: int = Field(default=2, ge=1)
    """Number of consecutive BREACHED verdicts after which an incident opens."""
    close_after: int = Field(default=3, ge=1)
    """Minimum number of consecutive good verdicts before an incident closes."""
    close_seconds: Seconds = 600.0
    """Minimum time of uninterrupted good verdicts before an incident closes. Prevents many short incidents of
    a datastream whose latency is close to its objective."""
    cooldown_seconds: Seconds = 120.0
    """Minimum time between two rebalances of a datastream."""
    most_a_day: int = Field(default=24, ge=0, le=1_000)
    """Maximum number of rebalances requested in any 24 hours, for all datastreams together."""
    most_a_day_of_each: int = Field(default=8, ge=0, le=1_000)
    """Maximum number of rebalances of one datastream in any 24 hours."""
    freeze_windows: list[Annotated[str, read_by(read_freeze)]] = Field(default=[], max_length=50)
    """Times without rebalances: `Fri 18:00 to Mon 06:00 Europe/Berlin`, `22:00 to 06:00`, `2026-12-20 18:00
    to 2027-01-03 06:00`. Times are in UTC unless a time zone is given."""
    burn_rates: list[Annotated[str, read_by(read_rule)]] = Field(
        default=["14.4 over 1 h and 5 m", "6 over 6 h and 30 m", "1 over 3 d"]
    )
    """Rules for burn-rate alerts. A rule has a burn rate, and one or two windows in which the budget must
    burn at this rate. At a rate of 1, an error budget lasts for exactly its period."""
    minimum_records: int = Field(default=100, ge=1)
    """Minimum number of records in a window of an error budget. In a window with fewer records, the share of
    late records is ignored."""
    metrics_port: int = Field(default=0, ge=0, le=65535)
    """Port of the monitor's Prometheus metrics; 0 disables the port."""
    metrics_host: str = "127.0.0.1"
    """Address to bind `metrics_port` to. Any address other than loopback is reachable from the network."""
    incidents_topic: str = "headrace-incidents"
    """Compacted topic for incidents on `mirror.metrics_cluster`. If empty, incidents are lost when the
    monitor ends."""
    incidents_days: int = Field(default=90, ge=1)
    """Retention of an incident in the topic after its last change. Set when the topic is created."""
    incident_rows_topic: str = "headrace-incident-rows"
    """Topic for the rows of Pinot's table `incidents`. If empty, no rows are written."""
    alerts: AlertSettings = AlertSettings()
    usage: UsageSettings = UsageSettings()

    @model_validator(mode="after")
    def _consistent(self) -> MonitorSettings:
        if self.window_seconds < self.interval_seconds:
            raise ValueError("window_seconds must not be shorter than interval_seconds")
        return self
