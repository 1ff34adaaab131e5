"""A copy that is to end, and finds after a crash that all of it lies at the destination already."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engines import EngineUnderTest, look, write
from tests.kafka_data import Record, make_topic
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

_COUNT = 20
_TOPIC = "found-whole"


def test_a_copy_ends_whose_records_are_all_there(
    kafka_pair: KafkaPair, new_engine: Callable[..., EngineUnderTest]
) -> None:
    source, destination = kafka_pair.source.address, kafka_pair.destination.address
    for address in (source, destination):
        make_topic(address, _TOPIC)
    write(source, _TOPIC, [Record(0, b"k", b"%d" % number, (), number) for number in range(_COUNT)])
    former = new_engine(source, destination, checkpoint_seconds=1_000.0)
    former.start(_TOPIC)
    former.run_to(_TOPIC, [_COUNT])
    former.crash()

    engine = new_engine(source, destination)
    engine.start(_TOPIC, end_offset=_COUNT)
    engine.run_until(engine.stopped, "the lane has come to its end")
    assert [event.next_offset for event in engine.stopped()] == [_COUNT]
    assert [record.value for record in look(destination, _TOPIC)] == [b"%d" % n for n in range(_COUNT)]
