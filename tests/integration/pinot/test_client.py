"""Responses of Pinot are complete or raise an error, with a real Pinot and an unreachable one."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from mirror.errors import AnalyticsError, InvalidRequest, NotFound, TimedOut, Unreachable
from pinot.catalogue import ask, questions
from pinot.client import PinotClient
from pinot.settings import PinotSettings
from pinot.tables import PARTITION_METRICS
from pinot.time_range import TimeRange
from stack.ports import free_ports
from tests.fakes.pinot_wire import answering
from tests.metrics_data import MetricsWorld, a_metric, fresh_name

pytestmark = pytest.mark.servers

RANGE = TimeRange(1_795_000_000_000, 1_795_000_001_000)


def test_errors_inside_an_answer_are_errors(metrics_world: MetricsWorld) -> None:
    client = metrics_world.client
    with pytest.raises(NotFound, match="table"):
        client.ask("select * from nothing limit 1")
    with pytest.raises(AnalyticsError, match="nowhere"):
        client.ask("select nowhere from partitionMetrics limit 1")
    with pytest.raises(AnalyticsError):
        client.ask("select select from partitionMetrics limit 1")


def test_what_pinotdb_would_write_wrongly_is_refused_before(metrics_world: MetricsWorld) -> None:
    client = metrics_world.client
    statement = "select topic from partitionMetrics where topic in (%(t)s) limit 1"
    for value in ("*", ["a", "*"], [], (), float("nan"), None):
        with pytest.raises(InvalidRequest):
            client.ask(statement, {"t": value})  # type: ignore[dict-item]
    with pytest.raises(AssertionError):
        client.ask("select topic from partitionMetrics")


def test_a_query_that_takes_too_long_is_given_up(metrics_world: MetricsWorld) -> None:
    cluster = fresh_name("slow")
    metrics_world.put(PARTITION_METRICS, [a_metric(cluster, "t", n, RANGE.since_ms) for n in range(2000)])
    settings = metrics_world.client.settings.model_copy(update={"timeout_seconds": 0.001, "attempts": 1})
    with closing(PinotClient(settings)) as hasty, pytest.raises(TimedOut):
        hasty.ask("select topic, percentile(size_bytes, 50) from partitionMetrics group by topic limit 10")


def test_a_broker_that_is_not_there_is_unreachable() -> None:
    settings = PinotSettings(broker=f"127.0.0.1:{free_ports(1)[0]}", attempts=2)
    with closing(PinotClient(settings)) as client, pytest.raises(Unreachable):
        client.ask("select 1 from partitionMetrics limit 1")


def test_named_queries_answer_and_refuse(metrics_world: MetricsWorld) -> None:
    cluster = fresh_name("named")
    metrics_world.put(PARTITION_METRICS, [a_metric(cluster, "t", 3, RANGE.since_ms)])
    client = metrics_world.client
    for question in questions():
        given = {"cluster": cluster, "usable_bytes_per_second": "10", "source_cluster": cluster}
        parameters = {name: given[name] for name in question.required}
        assert isinstance(ask(client, question.name, RANGE, parameters), list)
        assert question.summary
    (row,) = ask(client, "loads", RANGE, {"cluster": cluster, "topics": "t, u", "statistic": "max"})
    assert (row["topic"], row["kafka_partition"], row["inflow"]) == ("t", 3, 100.0)
    (row,) = ask(client, "offending", RANGE, {"cluster": cluster, "usable_bytes_per_second": "100"})
    assert row["share"] == 1.0
    with pytest.raises(NotFound, match="nope"):
        ask(client, "nope", RANGE, {})
    with pytest.raises(InvalidRequest, match="cluster"):
        ask(client, "loads", RANGE, {})
    with pytest.raises(InvalidRequest, match="colour"):
        ask(client, "freshness", RANGE, {"colour": "red"})
    with pytest.raises(InvalidRequest, match="mean, p95, max"):
        ask(client, "loads", RANGE, {"cluster": cluster, "statistic": "median"})
    with pytest.raises(InvalidRequest, match="must be a number"):
        ask(client, "offending", RANGE, {"cluster": cluster, "usable_bytes_per_second": "much"})


WHOLE: dict[str, Any] = {
    "resultTable": {"dataSchema": {"columnNames": ["n"], "columnDataTypes": ["LONG"]}, "rows": [[1]]},
    "exceptions": [],
    "numServersQueried": 1,
    "numServersResponded": 1,
}


def in_turn(*answers: dict[str, Any]) -> Callable[[str], bytes]:
    """Return a handler that sends these responses, the last one repeatedly, like a failing Pinot."""
    left = list(answers)
    return lambda _: json.dumps(left.pop(0) if len(left) > 1 else left[0]).encode()


@pytest.mark.parametrize(
    "trouble",
    [
        {"partialResult": True},
        {"numGroupsLimitReached": True},
        {"numServersQueried": 2},
        {"numServersQueried": 0, "numServersResponded": 0},
        {"exceptions": [{"errorCode": 200, "message": "QueryExecutionError:\nlong story"}]},
    ],
    ids=lambda trouble: next(iter(trouble)),
)
def test_half_an_answer_is_asked_for_again_and_never_given(trouble: dict[str, Any]) -> None:
    part = {**WHOLE, **trouble}
    with answering(in_turn(part, WHOLE)) as settings, closing(PinotClient(settings)) as client:
        assert client.ask("select n from t limit 1").rows == [[1]]
    with (
        answering(in_turn(part)) as settings,
        closing(PinotClient(settings)) as client,
        pytest.raises(AnalyticsError),
    ):
        client.ask("select n from t limit 1")
