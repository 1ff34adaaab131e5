"""Many lanes recover at once after a crash, with little memory."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from mirror.lane.ledger import OffsetClass
from tests.engines import EngineUnderTest, look_all, write
from tests.kafka_data import Record, make_topic
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

TOPIC, PARTITIONS, EACH = "recovering", 12, 60
NOW = int(time.time() * 1000)
OPTIONS = {"buffer_bytes": 3_000_000, "live_buffer_bytes": 1_000_000, "fetch_bytes": 1_000_000}


def test_lanes_that_recover_at_once_do_not_wait_for_each_others_memory(
    kafka_pair: KafkaPair, new_engine: Callable[..., EngineUnderTest]
) -> None:
    addresses = kafka_pair.source.address, kafka_pair.destination.address
    for address in addresses:
        make_topic(address, TOPIC, PARTITIONS)
    records = [
        Record(number, None, b"%d-%d" % (number, count) + bytes(20_000), (), NOW + count)
        for number in range(PARTITIONS)
        for count in range(EACH)
    ]
    write(addresses[0], TOPIC, records, batch_size=100_000, linger_ms=20)
    first = new_engine(*addresses, options=OPTIONS, checkpoint_seconds=60.0)
    first.start(TOPIC, PARTITIONS)
    first.run_to(TOPIC, [EACH] * PARTITIONS)
    first.crash()
    write(addresses[0], TOPIC, records[:1], linger_ms=0)
    second = new_engine(*addresses, options=OPTIONS)
    second.start(TOPIC, PARTITIONS)
    write(
        addresses[0],
        TOPIC,
        [Record(number, None, b"last", (), NOW) for number in range(PARTITIONS)],
        linger_ms=0,
    )
    second.run_to(TOPIC, [EACH + 2, *[EACH + 1] * (PARTITIONS - 1)])
    copied = look_all(addresses[1], TOPIC, range(PARTITIONS))
    assert [len(copied[number]) for number in range(PARTITIONS)] == [EACH + 2, *[EACH + 1] * (PARTITIONS - 1)]
    assert second.lane(TOPIC, 3).progress.ledger.total(OffsetClass.MIRRORED) == EACH + 1
