"""A result that fills its LIMIT is an error, because Pinot omits the other rows without a flag."""

from __future__ import annotations

from contextlib import closing

import pytest

from mirror.errors import AnswerTooLarge
from pinot.client import PinotClient
from pinot.partitions.rollups import HOUR_MS
from pinot.partitions.sums import TaskRoom, hourly_sums
from pinot.time_range import TimeRange
from tests.fakes.pinot_wire import answer_of, answering


@pytest.mark.parametrize(
    ("sql", "is_complete"),
    [
        ("select n from t limit 4", True),
        ("select n from t group by n limit 3", False),
        ("select n from t group by n LIMIT 2", False),
        ("select n from t order by n limit 3", True),
        ("select n from t limit 1", True),
    ],
)
def test_a_full_result_is_complete_only_if_the_query_chooses_its_rows(sql: str, is_complete: bool) -> None:
    asked: list[str] = []

    def body(query: str) -> bytes:
        asked.append(query)
        return answer_of([[1], [2], [3]], query)

    with answering(body) as broker, closing(PinotClient(broker)) as client:
        if is_complete:
            assert len(client.ask(sql).rows) == 3
        else:
            with pytest.raises(AnswerTooLarge, match="limit of"):
                client.ask(sql)
    assert len(asked) == 1, "another attempt returns the same rows"


def test_the_sums_of_half_a_year_are_complete() -> None:
    hours = 24 * 183

    def body(query: str) -> bytes:
        is_rollup = "partitionMetricsHourly" in query
        rows = [[hour * HOUR_MS, 1, 1, 1.0, 0, 1.0, 1.0, 0] for hour in range(hours)] if is_rollup else []
        return answer_of(rows, query)

    with answering(body) as broker, closing(PinotClient(broker)) as client:
        found = hourly_sums(client, "c", TimeRange(0, hours * HOUR_MS), ["t"], TaskRoom(10, None, 5.0))
    assert len(found) == hours
