"""Clock skew of real brokers, measured from the append times in acknowledgements."""

from __future__ import annotations

import time
from uuid import uuid4

import pytest

from mirror.adapters.system_clock import SystemClock
from mirror.model.identifiers import ClusterRef
from tests.engines import DESTINATION, EngineUnderTest, write
from tests.kafka_data import Record, make_topic
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]


class LateClock(SystemClock):
    """Clock behind that of the brokers, which run on this machine."""

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = milliseconds

    def now_ms(self) -> int:
        """Return epoch milliseconds."""
        return super().now_ms() - self._milliseconds


@pytest.mark.parametrize("off_ms", [0, 600_000, -600_000])
def test_how_far_the_destination_is_off_is_within_its_bound(kafka_pair: KafkaPair, off_ms: int) -> None:
    topic = f"clocks-{uuid4().hex[:8]}"
    for address in (kafka_pair.source.address, kafka_pair.destination.address):
        make_topic(address, topic)
    write(kafka_pair.source.address, topic, [Record(0, b"k", b"v", (), int(time.time() * 1000))])
    engine = EngineUnderTest(
        kafka_pair.source.address,
        kafka_pair.destination.address,
        progress_topic=f"{topic}-progress",
        clock=LateClock(off_ms),
    )
    engine.start(topic)
    engine.run_to(topic, [1])
    ((cluster, skew),) = engine.engine.clock_skews().items()
    engine.stop()
    assert cluster == ClusterRef(DESTINATION)
    assert abs(skew.ahead_ms - off_ms) <= skew.bound_ms
