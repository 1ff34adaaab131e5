"""A row with NaN or an infinity counts as missing, and does not affect the other rows."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from mirror.model.topics import TopicPartition
from pinot.client import PinotClient
from pinot.history.hourly_loads import partition_hours
from pinot.partitions.load_queries import partition_rates
from pinot.partitions.rollups import HOUR_MS
from pinot.tables import Statistic
from pinot.time_range import TimeRange
from tests.fakes.pinot_wire import answer_of, answering, columns_of

PLACES = [TopicPartition("bad", 0), TopicPartition("good", 0)]
WHEN = TimeRange(0, HOUR_MS)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", float("nan"), float("inf")])
def test_impossible_numbers_are_unknown(number: Any) -> None:
    """Pinot writes them as text, other servers as numbers."""

    def body(sql: str) -> bytes:
        if "max(kafka_partition)" in sql:
            return answer_of([["bad", 0], ["good", 0]], sql)
        width = columns_of(sql) - 2
        bad: list[Any] = [1.0] * width
        bad[6 if "lastwithtime" in sql else 3] = number
        return answer_of([["bad", 0, *bad], ["good", 0, *[1.0] * width]], sql)

    with answering(body) as broker, closing(PinotClient(broker)) as client:
        rates = partition_rates(client, "c", WHEN, statistic=Statistic.MAX)
        hours = partition_hours(client, "c", WHEN, PLACES)
    assert [rate.topic for rate in rates] == ["good"]
    assert hours.keys() == {TopicPartition("good", 0)}
