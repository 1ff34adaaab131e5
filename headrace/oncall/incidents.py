"""Builds the writer and the reader of stored incidents, from which a restarted monitor continues."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from headrace.clusters.directory import ClusterDirectory
from headrace.oncall.monitors import delivery_counts
from headrace.settings import HeadraceSettings
from mirror.adapters.system_clock import SystemClock
from mirror.errors import TopicMissing
from mirror.model.identifiers import ClusterRef, DatastreamName
from monitor.adapters.incident_topic import IncidentTopic
from monitor.alerts.dispatch import AlertDispatch
from monitor.alerts.stored_alerts import InheritedAlerts, matters_of, read_alerts
from monitor.cycle import MonitorCycle
from monitor.records.keeper import IncidentKeeper
from monitor.records.reader import RecordReader
from monitor.records.record import IncidentRecord, StoredMonitorState
from monitor.records.tracker import resumed


def build_incidents(settings: HeadraceSettings, cycle: MonitorCycle, alerts: AlertDispatch) -> IncidentKeeper:
    """Build the adapter that stores the monitor's incidents and loads them at a restart.

    Raises ConfigError, NotFound.
    """
    clock, inherited = SystemClock(), InheritedAlerts()
    alerts.expect_past()

    def restored(stored: StoredMonitorState) -> None:
        now_ms, now = clock.now_ms(), clock.monotonic()
        late = [record for record in stored.records if record.is_open and record.is_late]
        cycle.restore(
            {DatastreamName(incident.datastream): resumed(incident, now_ms, now) for incident in late}
        )
        alerts.remember(stored.records)
        alerts.resume(read_alerts(stored.notes.values()))

    return IncidentKeeper(
        incident_topic(settings),
        clock,
        restored,
        lambda: inherited.records(alerts.firing, alerts.accepted),
        lambda: matters_of(alerts.firing),
        delivery_counts(settings, clock),
    )


def kept_incidents(settings: HeadraceSettings) -> RecordReader:
    """Build the reader of stored incidents.

    The reader returns no incidents if the topic is missing or not configured.
    """
    topic = cache(lambda: incident_topic(settings))

    def read() -> Sequence[IncidentRecord]:
        try:
            return topic().read().records if settings.monitor.incidents_topic else ()
        except TopicMissing:
            return ()

    return RecordReader(read, SystemClock())


def incident_topic(settings: HeadraceSettings) -> IncidentTopic:
    """Return the topic in which incidents are stored."""
    cluster = ClusterDirectory(settings.clusters).resolve(ClusterRef(settings.mirror.metrics_cluster))
    monitor = settings.monitor
    return IncidentTopic(
        cluster, monitor.incidents_topic, monitor.incidents_days, monitor.incident_rows_topic
    )
