"""Reads the usage of owners from Pinot if it is configured, otherwise from the metrics topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from api.services import UsageReport, no_usage
from headrace.clusters.directory import directory_of
from headrace.settings import HeadraceSettings
from mirror.control.handlers import Control
from mirror.control.owner_quotas import quota_of
from mirror.errors import HistoryUnavailable, NotFound
from monitor.adapters.topic_usage import TopicUsage
from monitor.settings import MeasurementPlace
from monitor.usage_bill import bill
from pinot.history.points import UsageSum
from pinot.time_range import TimeRange


def usage_of(settings: HeadraceSettings, control: Control) -> Callable[[TimeRange], UsageReport]:
    """Return the function that reads the usage of owners on whole days.

    The function raises Unreachable, AnalyticsError, HistoryUnavailable, TopicMissing.
    """
    place = settings.monitor.measurements
    uses_pinot = place is not MeasurementPlace.TOPIC and "pinot" in settings.model_fields_set
    cluster = settings.clusters.get(settings.mirror.metrics_cluster)
    if not uses_pinot and cluster is None:
        return no_usage
    topic = None if uses_pinot or cluster is None else TopicUsage(cluster, settings.mirror.metrics_topic)
    rules = settings.mirror.definitions
    quotas = directory_of(settings).admission(rules, knows_callers=settings.api.knows_callers).quotas

    def usage(when: TimeRange) -> UsageReport:
        sums = _of_pinot(settings, when) if topic is None else topic.sums(when)
        datastreams = [stored.datastream for stored in control.list().readable]
        lines = bill(sums, datastreams, settings.monitor.usage.table())
        return UsageReport(
            lines,
            "pinot" if topic is None else "topic",
            settings.monitor.usage.currency,
            lambda owner: quota_of(quotas, owner).bytes_per_second,
        )

    return usage


def _of_pinot(settings: HeadraceSettings, when: TimeRange) -> Sequence[UsageSum]:
    try:
        from pinot.client import PinotClient
        from pinot.history.usage_sums import usage_sums
    except ModuleNotFoundError as error:
        raise HistoryUnavailable(
            f"cannot read the usage: {error.name} is not installed",
            advice="install the extra pinot, or set monitor.measurements to topic",
        ) from error
    with closing(PinotClient(settings.pinot.model_copy(update={"attempts": 1}))) as client:
        try:
            return usage_sums(client, when)
        except NotFound as error:
            raise HistoryUnavailable(f"no usage recorded: {error.message}", advice=error.advice) from error
