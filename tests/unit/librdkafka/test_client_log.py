"""Connection errors of librdkafka: one line when they start, one when they end."""

from __future__ import annotations

import logging
from math import inf

import pytest
from confluent_kafka import Producer

from librdkafka.client_log import OutageFilter, client_logger, error_of_broker
from stack.ports import free_ports
from tests.patience import wait_until

REFUSED = (
    "FAIL [metrics#producer-3] [thrd:127.0.0.1:31326/bootstrap]: 127.0.0.1:31326/bootstrap: "
    "Connect to ipv4#127.0.0.1:31326 failed: Connection refused (after {}ms in state CONNECT)"
)
REJECTED = (
    "ERROR [x#consumer-1] [thrd:sasl_ssl://b-1.kafka:9096/1]: sasl_ssl://b-1.kafka:9096/1: "
    "SASL authentication error"
)


@pytest.fixture
def logger() -> logging.Logger:
    logger = logging.Logger("librdkafka of a test")
    logger.addFilter(OutageFilter())
    logger.parent = logging.getLogger()
    return logger


def outages(logger: logging.Logger) -> OutageFilter:
    (found,) = [one for one in logger.filters if isinstance(one, OutageFilter)]
    return found


def test_lines_of_librdkafka_are_understood() -> None:
    assert error_of_broker(REFUSED.format(0)) == (
        "127.0.0.1:31326",
        "Connect to ipv4#127.0.0.1:31326 failed: Connection refused",
    )
    assert error_of_broker(REJECTED) == ("b-1.kafka:9096", "SASL authentication error")
    other = "METADATAUPDATE [m#producer-1] [thrd:main]: Partition m(JX)[0]: new leader-1 not found in cache"
    assert error_of_broker(other) is None


def test_an_outage_of_minutes_is_two_lines(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    for attempt in range(2_000):
        logger.error(REFUSED.format(attempt))
    logger.warning("METADATAUPDATE [m#producer-1] [thrd:main]: another matter")
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "Connection refused" in caplog.messages[0]
    assert caplog.messages[0].endswith(" counted, not logged")
    assert outages(logger).end_silent(-inf), "the outage ended too early"
    assert not outages(logger).end_silent(inf)
    assert "127.0.0.1:31326: " in caplog.messages[2]
    assert " 2000 in " in caplog.messages[2]
    logger.error(REFUSED.format(0))
    assert "Connection refused" in caplog.messages[3]


def test_a_real_client_that_reaches_nobody_logs_its_first_error_only(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    class Counter(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            seen.append(record.getMessage())
            return True

    logger.filters.insert(0, Counter())
    port = free_ports(1)[0]
    producer = Producer(
        {"bootstrap.servers": f"127.0.0.1:{port}", "reconnect.backoff.max.ms": 100, "logger": logger}
    )

    def has_failed_often() -> bool:
        producer.poll(0.05)
        return len([line for line in seen if "Connection refused" in line]) >= 5

    wait_until(has_failed_often, "five errors of one broker")
    shown = [record.getMessage() for record in caplog.records if str(port) in record.getMessage()]
    assert len(shown) == 1, shown


def test_every_client_gets_the_one_filtered_logger() -> None:
    assert client_logger() is client_logger()
    assert sum(isinstance(one, OutageFilter) for one in client_logger().filters) == 1
