"""A rejected record affects only its partition, and depending on the policy not even that."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mirror.lane.ledger import OffsetClass
from mirror.model.datastreams.policy import CopyPath, CopyPolicy, OnRejection
from mirror.model.topics import DEAD_LETTER_SUFFIX
from tests.engines import EngineUnderTest, check_map, look, write
from tests.kafka_data import Record, admin_client, make_topic
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.servers, pytest.mark.deep]

NOW = int(time.time() * 1000)
FOREVER = "9223372036854775807"


def records(count: int, keyless: tuple[int, ...] = (), large: tuple[int, ...] = ()) -> list[Record]:
    return [
        Record(
            0,
            None if number in keyless else b"k%d" % number,
            b"x" * (1_500_000 if number in large else 20),
            (),
            NOW + number,
        )
        for number in range(count)
    ]


def change(address: str, topic: str, **settings: str) -> None:
    """Change settings of a topic."""
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = admin_client(address)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_SECONDS)


def contents(
    records_: list[Record], without: tuple[int, ...] = ()
) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for number, record in enumerate(records_) if number not in without]


def seen(address: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in look(address, topic)]


@pytest.mark.parametrize("path", [CopyPath.AUTO, CopyPath.RECORD])
def test_a_record_too_large_can_be_skipped(engine: EngineUnderTest, path: CopyPath) -> None:
    topic = f"refused-skip-{path}"
    make_topic(engine.source, topic, max_message_bytes="3000000")
    make_topic(engine.destination, topic)
    sent = records(30, large=(3, 17))
    write(engine.source, topic, sent, message_max_bytes=3_000_000, linger_ms=100)
    engine.start(topic, policy=CopyPolicy(on_rejection=OnRejection.SKIP, path=path))
    engine.run_to(topic, [30])
    assert seen(engine.destination, topic) == contents(sent, without=(3, 17))
    lane = engine.lane(topic)
    assert lane.progress.ledger.total(OffsetClass.FILTERED) == 2
    here = [record for record in look(engine.source, topic) if record.offset not in (3, 17)]
    check_map(lane, here, look(engine.destination, topic))


def test_records_without_a_key_are_put_aside_with_their_coordinates(engine: EngineUnderTest) -> None:
    make_topic(engine.source, "refused-key")
    make_topic(engine.destination, "refused-key", cleanup_policy="compact")
    sent = records(40, keyless=(5, 6, 33))
    write(engine.source, "refused-key", sent, linger_ms=100, compression_type="lz4")
    engine.start("refused-key", policy=CopyPolicy(on_rejection=OnRejection.DEAD_LETTER))
    engine.run_to("refused-key", [40])
    assert seen(engine.destination, "refused-key") == contents(sent, without=(5, 6, 33))
    letters = look(engine.destination, "refused-key" + DEAD_LETTER_SUFFIX)
    assert [dict(letter.headers)["headrace-offset"] for letter in letters] == [b"5", b"6", b"33"]
    assert dict(letters[0].headers)["headrace-source"] == b"source/refused-key"
    assert b"INVALID_RECORD" in (dict(letters[0].headers)["headrace-reason"] or b"")
    assert engine.lane("refused-key").progress.ledger.total(OffsetClass.DEAD_LETTERED) == 3
    assert not engine.paused()


def test_a_refused_timestamp_pauses_with_its_offset_and_passes_when_allowed(engine: EngineUnderTest) -> None:
    make_topic(engine.source, "refused-time", message_timestamp_after_max_ms="9223372036854775807")
    make_topic(engine.destination, "refused-time", message_timestamp_after_max_ms="60000")
    sent = records(20)
    sent[11] = Record(0, b"k", b"from the future", (), NOW + 86_400_000)
    write(engine.source, "refused-time", sent, linger_ms=100)
    engine.start("refused-time")
    engine.run_until(engine.paused, "the lane pauses")
    assert "source offset 11" in engine.paused()[0].reason
    change(engine.destination, "refused-time", message_timestamp_after_max_ms="9223372036854775807")
    engine.run_to("refused-time", [20])
    assert seen(engine.destination, "refused-time") == contents(sent)


def test_a_dead_letter_topic_with_limits_of_its_own_is_named_with_the_setting_to_change(
    engine: EngineUnderTest,
) -> None:
    topic, letters = "refused-limits", "refused-limits" + DEAD_LETTER_SUFFIX
    make_topic(engine.source, topic, max_message_bytes="3000000", message_timestamp_after_max_ms=FOREVER)
    make_topic(engine.destination, topic, cleanup_policy="compact")
    make_topic(engine.destination, letters, cleanup_policy="compact")
    sent = records(30, keyless=(3,), large=(17,))
    sent[20] = Record(0, b"k", b"from the future", (), NOW + 86_400_000)
    write(engine.source, topic, sent, message_max_bytes=3_000_000, linger_ms=100)
    engine.start(topic, policy=CopyPolicy(on_rejection=OnRejection.DEAD_LETTER))
    in_the_way = {
        "cleanup.policy": "delete",
        "max.message.bytes": "104857600",
        "message.timestamp.after.max.ms": FOREVER,
    }
    named: set[str] = set()

    def news() -> set[str]:
        reasons = [
            one.reason
            for one in engine.paused()
            if f"topic {letters} would reject the record too" in one.reason
        ]
        return {
            key for key, value in in_the_way.items() for one in reasons if f"{key}={value}" in one
        } - named

    while named != set(in_the_way):
        engine.run_until(news, "the lane pauses for another setting")
        for setting in news():
            change(engine.destination, letters, **{setting: in_the_way[setting]})
            named.add(setting)
    engine.run_to(topic, [30])
    assert seen(engine.destination, topic) == contents(sent, without=(3, 17, 20))
    found = [dict(letter.headers)["headrace-offset"] for letter in look(engine.destination, letters)]
    assert (len(found), set(found)) == (3, {b"3", b"17", b"20"}), "not exactly one letter for each"


def test_transforms_change_and_drop_records(engine: EngineUnderTest) -> None:
    make_topic(engine.source, "refused-transform")
    make_topic(engine.destination, "refused-transform")
    producer = Producer({"bootstrap.servers": engine.source, "max.in.flight": 1})
    for number in range(20):
        value = b'{"id":%d,"card":{"number":"4711"}}' % number
        producer.produce(
            "refused-transform", value, b"a%d" % (number % 3), headers=[("old", b"1"), ("gone", b"2")]
        )
    assert producer.flush(PATIENCE_SECONDS) == 0
    transforms = ("mask-field:card.number", "rename-header:old=new", "drop-header:gone", "keep-keys:a1")
    engine.start("refused-transform", policy=CopyPolicy(transforms=transforms))
    engine.run_to("refused-transform", [20])
    there = look(engine.destination, "refused-transform")
    wanted = [number for number in range(20) if number % 3 == 1]
    assert [record.value for record in there] == [
        b'{"id":%d,"card":{"number":"***"}}' % number for number in wanted
    ]
    assert all(record.headers == (("new", b"1"),) for record in there)
    lane = engine.lane("refused-transform")
    assert lane.progress.ledger.total(OffsetClass.FILTERED) == 20 - len(wanted)
    check_map(
        lane,
        [record for record in look(engine.source, "refused-transform") if record.offset in wanted],
        there,
    )
