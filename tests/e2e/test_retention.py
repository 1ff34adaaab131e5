"""Retention that deletes records before a small quota lets them be copied: the alert precedes the loss."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import Final

import pytest
from confluent_kafka import Consumer, TopicPartition

from monitor.alerts.catalogue import LOSS_AHEAD, TRUNCATED
from tests.e2e.conftest import NewInstance
from tests.fakes.alert_receivers import HttpReceiver
from tests.kafka_data import Record, make_topic, produce
from tests.metrics_data import fresh_name
from tests.mirrored import create_datastream
from tests.on_call import alert_settings, alert_states, sent_alerts
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.deep]

KEPT_MS: Final = 180_000
WAITED_MS: Final = 75_000
"""Age of the first record when the test writes it."""
EACH_MS: Final = 100
"""Interval between two records."""
SIZE: Final = 40_000
BUDGET: Final = 40_000
"""Bytes per second: a tenth of the inflow of that time."""
SOON: Final = {"log.retention.check.interval.ms": 500, "log.initial.task.delay.ms": 500}
"""Broker settings for prompt deletion; by default brokers check every five minutes."""


def backlog(now_ms: int) -> list[Record]:
    """Return the records that would have been written up to now."""
    stamps = range(now_ms - WAITED_MS, now_ms, EACH_MS)
    return [Record(0, None, os.urandom(SIZE), (), stamp) for stamp in stamps]


def lost(consumer: Consumer, instance: RunningInstance, name: str) -> bool:
    """Return whether the source log starts after the stored checkpoint."""
    begin, _ = consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=PATIENCE_SECONDS)
    (row,) = instance.rest.get(f"/v1/datastreams/{name}/progress")
    return (row["next_offset"] or 0) < begin


def test_the_alarm_for_data_that_will_be_lost_comes_before_the_first_loss(
    new_instance: NewInstance, new_kafka: NewKafka
) -> None:
    name, source = fresh_name("kept"), new_kafka("source", properties=SOON)
    make_topic(source.address, name, 1, retention_ms=str(KEPT_MS), segment_ms="1000")
    with (
        HttpReceiver() as hook,
        closing(Consumer({"bootstrap.servers": source.address, "group.id": "tests"})) as consumer,
    ):
        instance = new_instance(
            "one",
            clusters__source__bootstrap_servers=source.address,
            monitor__alerts__loss_after_seconds="1",
            **alert_settings(hook),
        )
        create_datastream(instance, name, name, quota={"bytes_per_second": BUDGET})
        # A segment is rolled by the timestamp of its first record.
        produce(source.address, name, backlog(int(time.time() * 1000))[:1])
        wait_until(
            lambda: [one["lag_records"] for one in instance.lanes()] == [0], "the first record is copied"
        )
        produce(source.address, name, backlog(int(time.time() * 1000)), **{"batch.size": 2 * SIZE})
        wait_until(lambda: (LOSS_AHEAD.name, "firing") in alert_states(hook, name), "an alert is sent")
        assert not lost(consumer, instance, name), "records were lost before the alert"
        wait_until(lambda: lost(consumer, instance, name), "records are lost")
        wait_until(
            lambda: (TRUNCATED.name, "firing") in alert_states(hook, name), "an alert reports the loss"
        )
        instance.kill()  # a shutdown would wait for the records held back by the quota
    alarm, *_ = [one for one in sent_alerts(hook, name) if one["labels"]["alertname"] == LOSS_AHEAD.name]
    assert alarm["annotations"]["worst_partition"] == f"{name}-0"
    assert "deletes" in alarm["annotations"]["description"]
    assert alert_states(hook, name)[0] == (LOSS_AHEAD.name, "firing"), "another alert came first"
