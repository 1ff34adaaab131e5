"""`headrace dr switchover`, killed with -9 in the middle and run again: no record is lost or repeated."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from headrace.__main__ import app
from mirror.jobs.dr.operation import STEPS, Kind, Step
from tests.e2e.conftest import NewInstance
from tests.e2e.pair_site import kill_at
from tests.kafka_data import Record, commit_positions, group_positions, make_topic, produce, read_all
from tests.mirrored import some_records
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = pytest.mark.servers

PARTITIONS: Final = 2
EACH: Final = 40
Content = tuple[object, ...]
DEADLINE: Final = ("--deadline", f"{PATIENCE_SECONDS:.0f}s")


def content_of(record: Record) -> Content:
    return record.partition, record.key, record.value, record.headers


def invoked(instance: RunningInstance, *words: str) -> Any:
    """Run a command; return its document."""
    result = CliRunner().invoke(
        app, [*words, "--at", instance.address, "--json"], env=dict(instance.environment)
    )
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    "kills",
    [
        {"destination": [Step.REVERSED], "source": []},
        pytest.param(
            dict.fromkeys(("destination", "source"), STEPS[Kind.SWITCHOVER]), marks=pytest.mark.deep
        ),
    ],
    ids=["some", "all"],
)
def test_roles_are_exchanged_twice_although_the_command_is_killed(
    kafka_pair: KafkaPair, new_instance: NewInstance, kills: Mapping[str, Sequence[Step]]
) -> None:
    topic, group = f"orders-{uuid4().hex[:8]}", f"billing-{uuid4().hex[:8]}"
    pair = {
        "dr__pair__primary": "source",
        "dr__pair__standby": "destination",
        "dr__pair__datastreams": '["over"]',
        "dr__pair__groups": group,
        "dr__pair__still_seconds": "1",
    }
    instance = new_instance("one", **pair)
    addresses = {"source": kafka_pair.source.address, "destination": kafka_pair.destination.address}
    make_topic(addresses["source"], topic, PARTITIONS)
    create = ("--source", "source", "--destination", "destination", "--topics", topic, "--owner", "tests")
    invoked(instance, "datastream", "create", "over", *create)

    written: Counter[Content] = Counter()

    def write(at: str, prefix: str) -> None:
        records = list(some_records(PARTITIONS, EACH, prefix))
        produce(addresses[at], topic, records)
        written.update(map(content_of, records))

    def found(at: str) -> Counter[Content]:
        return Counter(map(content_of, read_all(addresses[at], topic)))

    def has(at: str, count: int) -> bool:
        return found(at).total() >= count

    def positions(at: str) -> list[int]:
        return group_positions(addresses[at], group, topic, PARTITIONS)

    def switch(to: str) -> Any:
        words = ("dr", "switchover", "pair", "--to", to, *DEADLINE)
        for step in kills[to]:
            kill_at(instance, step, *words)
        return invoked(instance, *words)

    write("source", "first")
    wait_until(partial(has, "destination", EACH), "records are mirrored")
    commit_positions(addresses["source"], group, {(topic, 0): 7, (topic, 1): 3})
    there = switch("destination")
    assert (there["active"], there["failure"]) == ("destination", "")
    assert positions("destination") == [7, 3]
    write("destination", "second")
    wait_until(partial(has, "source", 2 * EACH), "records are mirrored back")
    commit_positions(addresses["destination"], group, {(topic, 0): 9, (topic, 1): 5})

    back = switch("source")
    assert (back["active"], back["failure"]) == ("source", "")
    assert positions("source") == [9, 5], "records before the opposite copy have their former positions"
    write("source", "third")
    wait_until(partial(has, "destination", 3 * EACH), "records are mirrored again")
    assert found("source") == found("destination") == written
    status = invoked(instance, "dr", "status", "pair")
    assert (status["state"], status["operation"], len(status["history"])) == ("steady", None, 2)


@pytest.mark.deep
def test_a_drill_goes_there_and_back_while_the_pair_copies(
    kafka_pair: KafkaPair, new_instance: NewInstance
) -> None:
    topic = f"orders-{uuid4().hex[:8]}"
    pair = {
        "dr__pair__primary": "source",
        "dr__pair__standby": "destination",
        "dr__pair__datastreams": '["over"]',
        "dr__pair__still_seconds": "1",
    }
    instance = new_instance("one", **pair)
    make_topic(kafka_pair.source.address, topic, PARTITIONS)
    create = ("--source", "source", "--destination", "destination", "--topics", topic, "--owner", "tests")
    invoked(instance, "datastream", "create", "over", *create)
    for number in (1, 2):
        found = invoked(instance, "dr", "drill", "pair", "--for", "1s", *DEADLINE)
        assert (found["problems"], len(found["legs"])) == ([], 2), number
    produce(kafka_pair.source.address, topic, some_records(PARTITIONS, EACH, "after"))
    wait_until(
        lambda: len(list(read_all(kafka_pair.destination.address, topic))) == EACH, "records are mirrored"
    )
    assert [one["name"] for one in instance.rest.get("/v1/datastreams")] == ["over"]
