"""Test which topics are created or expanded at a destination."""

from __future__ import annotations

import re
from dataclasses import replace

from mirror.coordination.discovery import destination_description, drift, topic_work
from mirror.model.datastreams.policy import FORCED_SETTINGS
from mirror.model.topics import TopicDescription, TopicNaming
from tests.builders import DESTINATION, a_datastream

COPY = a_datastream(topics="orders|users", naming=TopicNaming("copy.*"))


def described(name: str, partitions: int, **settings: str) -> dict[str, TopicDescription]:
    return {name: TopicDescription(name, partitions, settings=settings)}


def test_a_missing_topic_is_made_with_the_sources_partitions_and_settings() -> None:
    settings = {"retention.ms": "5", "cleanup.policy": "compact", "max.message.bytes": "99"}
    descriptions = {"orders": TopicDescription("orders", 3, settings=settings)}
    (work,) = topic_work(COPY, {"orders": 3}, {}, descriptions)
    assert work.create
    assert work.cluster == DESTINATION
    assert work.topic == TopicDescription("copy.orders", 3, settings=settings | FORCED_SETTINGS)


def test_what_belongs_to_the_source_cluster_alone_is_not_carried() -> None:
    settings = {
        "min.insync.replicas": "3",
        "leader.replication.throttled.replicas": "*",
        "compression.type": "gzip",
        "message.timestamp.type": "LogAppendTime",
    }
    descriptions = {"orders": TopicDescription("orders", 1, settings=settings)}
    (work,) = topic_work(COPY, {"orders": 1}, {}, descriptions)
    assert work.topic.settings == FORCED_SETTINGS


def test_a_destination_with_fewer_partitions_grows_and_one_with_more_is_left_alone() -> None:
    counts = {"orders": 4, "users": 2}
    work = topic_work(COPY, counts, {"copy.orders": 3, "copy.users": 9}, {})
    assert [(one.topic.name, one.topic.partitions, one.create) for one in work] == [("copy.orders", 4, False)]


def test_nothing_is_done_twice() -> None:
    assert topic_work(COPY, {"orders": 3}, {"copy.orders": 3}, described("orders", 3)) == ()


def test_a_topic_that_vanished_before_it_was_described_is_left_out() -> None:
    assert topic_work(COPY, {"orders": 3}, {}, {}) == ()


def test_settings_that_are_not_as_they_would_be_made_are_said() -> None:
    wanted = destination_description(described("orders", 1, **{"retention.ms": "5"})["orders"], "copy.orders")
    assert drift(wanted, wanted) == []
    present = TopicDescription("copy.orders", 1, settings={**wanted.settings, "retention.ms": "6"})
    (sentence,) = drift(wanted, present)
    assert re.match(r"copy\.orders: retention\.ms .*\b6\b.*\b5\b", sentence)
    bare = TopicDescription("copy.orders", 1, settings={"min.insync.replicas": "2"})
    assert [sentence.split(": ")[1].split(" ")[0] for sentence in drift(wanted, bare)] == [
        "compression.type",
        "message.timestamp.type",
        "retention.ms",
    ]


def supplied(name: str, **defaults: str) -> TopicDescription:
    values = {key.replace("_", "."): value for key, value in defaults.items()}
    return TopicDescription(name, 1, defaults=values)


def test_defaults_of_the_sources_brokers_are_carried_where_the_destination_has_others() -> None:
    here = supplied("t", retention_ms="30", max_message_bytes="10", cleanup_policy="delete", segment_ms="9")
    there = supplied("u", retention_ms="7", max_message_bytes="10", cleanup_policy="delete")
    made = destination_description(here, "t", (), there)
    assert made.settings == {**FORCED_SETTINGS, "retention.ms": "30"}
    assert destination_description(here, "t", ["retention.ms"], there).settings == FORCED_SETTINGS


def test_defaults_are_carried_where_those_of_the_destination_are_unknown() -> None:
    here = supplied("t", retention_ms="30", message_timestamp_before_max_ms="5")
    assert destination_description(here, "t").settings == {**FORCED_SETTINGS, "retention.ms": "30"}
    own = TopicDescription("u", 1, settings={"retention.ms": "30"})
    assert destination_description(here, "t", (), own).settings["retention.ms"] == "30"


def test_defaults_that_differ_are_drift() -> None:
    here, there = supplied("t", retention_ms="30"), supplied("t", retention_ms="7")
    forced = replace(there, settings=FORCED_SETTINGS)
    (sentence,) = drift(destination_description(here, "t", (), there), forced)
    assert sentence.startswith("t: retention.ms is 7")
    explicit = replace(forced, settings={**FORCED_SETTINGS, "retention.ms": "30"})
    assert drift(destination_description(here, "t", (), there), explicit) == []
