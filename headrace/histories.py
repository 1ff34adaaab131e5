"""Reads past loads and latencies from Pinot, if it is configured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from api.services import LatencyHistoryQuery, LoadHistoryQuery, no_history
from headrace.clusters.directory import ClusterDirectory
from headrace.errors import requirements_of
from headrace.settings import HeadraceSettings
from mirror.errors import HistoryUnavailable, NotFound
from mirror.model.bounds import REACH_SECONDS
from mirror.model.topics import TopicPartition
from pinot.history.points import LatencyHistory, LoadHour

if TYPE_CHECKING:
    from pinot.client import PinotClient

Hours: TypeAlias = Mapping[TopicPartition | None, Sequence[LoadHour]]


def histories_of(
    settings: HeadraceSettings,
) -> tuple[Callable[[LoadHistoryQuery], Hours], Callable[[LatencyHistoryQuery], LatencyHistory]]:
    """Return two functions, which read past loads and past latencies.

    The functions query Pinot without retries, with a timeout of at most `REACH_SECONDS`, because a caller
    waits for the response. The functions raise HistoryUnavailable, Unreachable, TimedOut and AnalyticsError.
    """
    is_wanted = settings.mirror.leader.load_provider == "pinot" or "pinot" in settings.model_fields_set
    if not is_wanted:
        return no_history, no_history
    return partial(_loads, settings), partial(_latency, settings)


def _loads(settings: HeadraceSettings, query: LoadHistoryQuery) -> Hours:
    client = _client(settings)
    from pinot.history.hourly_loads import partition_hours, topics_hours

    cluster = ClusterDirectory(settings.clusters).of_address(query.cluster)
    with closing(client):
        try:
            if query.places:
                found = partition_hours(client, cluster, query.when, query.places)
                return {place: found.get(place, ()) for place in query.places}
            return {None: topics_hours(client, cluster, query.when, query.topics)}
        except NotFound as error:
            raise _no_table(error) from error


def _latency(settings: HeadraceSettings, query: LatencyHistoryQuery) -> LatencyHistory:
    client = _client(settings)
    from pinot.history.latency import latency_steps

    with closing(client):
        try:
            return latency_steps(client, query.group, query.when, query.points, query.topics)
        except NotFound as error:
            raise _no_table(error) from error


def _client(settings: HeadraceSettings) -> PinotClient:
    """Return a client of Pinot. Raises HistoryUnavailable if the extra `pinot` is not installed."""
    try:
        from pinot.client import PinotClient
    except ModuleNotFoundError as error:
        wanted = " ".join(f"'{requirement}'" for requirement in sorted(requirements_of("pinot")))
        raise HistoryUnavailable(
            f"cannot read history: {error.name} is not installed", advice=f"pip install {wanted}"
        ) from error
    patience = min(settings.pinot.timeout_seconds, REACH_SECONDS)
    return PinotClient(settings.pinot.model_copy(update={"attempts": 1, "timeout_seconds": patience}))


def _no_table(error: NotFound) -> HistoryUnavailable:
    """Return an error for a missing table in Pinot, because its KeyError would look like an unknown name in
    the request."""
    return HistoryUnavailable(f"no history recorded: {error.message}", advice=error.advice)
