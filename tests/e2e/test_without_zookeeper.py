"""One instance without ZooKeeper: created over REST, killed, restarted, refused to a second one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.e2e.conftest import service_environment
from tests.kafka_data import make_topic, produce
from tests.mirrored import by_partition, copied_records, create_datastream, some_records, wait_for_copy
from tests.patience import eventually, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long]


@pytest.fixture
def instances(tmp_path: Path, kafka_pair: KafkaPair) -> Iterator[dict[str, RunningInstance]]:
    """Two instances with the same state directory, not started."""
    environment = {
        "HEADRACE_MIRROR__STATE_DIRECTORY": str(tmp_path / "state"),
        **service_environment(kafka_pair, uuid4().hex[:12]),
    }
    made = {name: RunningInstance(name, tmp_path, environment) for name in ("one", "two")}
    yield made
    for instance in made.values():
        instance.stop()


def test_an_instance_without_zookeeper_is_killed_and_goes_on(
    kafka_pair: KafkaPair, instances: dict[str, RunningInstance], tmp_path: Path
) -> None:
    topic = f"alone-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, 3, retention_ms="-1")
    first, second, third = (some_records(3, 300, salt) for salt in "abc")
    one, two = instances["one"].start(), instances["two"]
    create_datastream(one, "alone", topic)
    produce(kafka_pair.source.address, topic, first)
    wait_for_copy(kafka_pair, topic, len(first))
    assert str(tmp_path / "state") in one.health()["parts"]["coordination store"]["sentence"]

    two.launch()
    wait_until(lambda: not two.is_alive(), "the second instance is refused")
    assert f"one (process {one.pid})" in two.log_file.read_text()
    two.stop()
    produce(kafka_pair.source.address, topic, second)
    one.kill()
    one.start()
    produce(kafka_pair.source.address, topic, third)
    wanted = first + second + third
    wait_for_copy(kafka_pair, topic, len(wanted))
    copied = copied_records(kafka_pair, topic, len(wanted))
    assert by_partition(copied) == by_partition(wanted), "nothing lost, nothing doubled"
    assert eventually(lambda: one.health()["is_well"], "healthy")
    assert [found["name"] for found in one.rest.get("/v1/instances")] == ["one"]
    assert one.terminate() == 0

    assert two.start().rest.get("/v1/datastreams")[0]["name"] == "alone"
