"""Selection of the hours to roll up."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from pinot.client import PinotClient
from pinot.partitions.rollups import HOUR_MS, Hour, hour_pages
from pmp.rollup import hours_to_roll_up
from tests.fakes.pinot_wire import answer_of, answering, columns_of

FIRST, SECOND = Hour("a", 0), Hour("a", HOUR_MS)


def test_hours_whose_rollup_knows_fewer_samples_are_behind() -> None:
    sampled = {SECOND: 5, FIRST: 3, Hour("b", 0): 1}
    rolled_up = {FIRST: 2, Hour("b", 0): 1}
    assert hours_to_roll_up(sampled, rolled_up) == [FIRST, SECOND]


def test_an_hour_whose_samples_are_partly_gone_keeps_its_rollup() -> None:
    assert hours_to_roll_up({FIRST: 2}, {FIRST: 9, SECOND: 4}) == []


def test_a_partition_has_one_row_although_its_datacenter_was_renamed_within_the_hour() -> None:
    def body(sql: str) -> bytes:
        if "max(kafka_partition)" in sql:
            return answer_of([["t", 0]], sql)
        row: list[Any] = ["dc", "t", *[1] * (columns_of(sql) - 2)]
        return answer_of([row] * (2 if "group by datacenter" in sql else 1), sql)

    with answering(body) as broker, closing(PinotClient(broker)) as client:
        ((row,),) = hour_pages(client, Hour("a", 0))
    assert (row.partition.datacenter, row.partition.topic) == ("dc", "t")
