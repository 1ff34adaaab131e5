"""Records of every shape, a datastream, and waits for its copies, for tests of the whole service."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException

from tests.kafka_data import Record, counts, read_all
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

_NOT_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
"""Error codes for a topic that is being created."""


def some_records(partitions: int, count: int, salt: str = "") -> list[Record]:
    """Return records of every shape: null and empty keys and values, headers, timestamps out of order."""
    shapes: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
        (b"key", b"value", ()),
        (None, b"no key", (("one", b"1"), ("one", b"2"), ("null", None))),
        (b"tombstone", None, ()),
        (b"", b"", (("empty", b""),)),
    ]
    records = []
    for number in range(count):
        key, value, headers = shapes[number % len(shapes)]
        text = f"{salt}{number}".encode()
        records.append(
            Record(
                number % partitions,
                key and key + text,
                value and value + text,
                (*headers, ("number", text)),
                1_700_000_000_000 + (number * 7919) % 100_000,
            )
        )
    return records


def late_records(count: int) -> list[Record]:
    """Return new records of one partition, which no mirror copies within an objective of 1 ms.

    Records with old timestamps would not be late: their latency counts from their arrival at the source.
    """
    return [Record(0, None, b"late", (), round(time.time() * 1000))] * count


def by_partition(records: list[Record]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for record in records:
        found.setdefault(record.partition, []).append(record)
    return found


def create_datastream(instance: RunningInstance, name: str, topics: str, **more: object) -> None:
    instance.rest.post(
        "/v1/datastreams",
        {
            "name": name,
            "source": {"cluster": "source", "topics": topics},
            "destination": {"cluster": "destination", "name": "copy.*"},
            **{"metadata": {"owner": "tests"}, **more},
        },
    )


def wait_for_copy(kafka_pair: KafkaPair, topic: str, expected: int) -> None:
    def arrived() -> int:
        try:
            found = counts(kafka_pair.destination.address, [f"copy.{topic}"])[f"copy.{topic}"]
        except KafkaException as error:
            if not error.args[0].retriable() and error.args[0].code() not in _NOT_YET:
                raise
            return 0
        return found if found >= expected else 0

    wait_until(arrived, f"{expected} records of {topic}", interval_seconds=0.3)


def copied_records(kafka_pair: KafkaPair, topic: str, expected: int) -> list[Record]:
    """Wait until this many records have been copied, and return all copied records.

    Unlike `wait_for_copy` it reads them: fences take offsets too, so that end offsets do not give the number
    of records.
    """

    def arrived() -> list[Record]:
        found = read_all(kafka_pair.destination.address, f"copy.{topic}")
        return found if len(found) >= expected else []

    return wait_until(arrived, f"{expected} records of {topic}", interval_seconds=0.5)


def wait_until_caught_up(instance: RunningInstance, name: str) -> None:
    """Wait until the lanes of the datastream copy without lag.

    Records found before this do not count as late for any objective.
    """

    def is_caught_up() -> bool:
        lanes = instance.rest.get("/v1/lanes", datastream=name)["lanes"]
        return bool(lanes) and all(one["lag_records"] == 0 for one in lanes)

    wait_until(is_caught_up, f"{name} has caught up")
