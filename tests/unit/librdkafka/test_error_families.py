"""Mapping of every librdkafka error to an error class of Headrace."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from librdkafka.errors import translate
from mirror import errors
from mirror.errors import HeadraceError
from mirror.protocol.codes import TRANSIENT


def kafka_codes() -> dict[str, int]:
    """Return every error code of the library, by name."""
    return {
        name: value
        for name in dir(KafkaError)
        if not name.startswith("__")
        and name.isupper()
        and isinstance(value := getattr(KafkaError, name), int)
    }


CODES = kafka_codes()


def meaning(code: int) -> type[HeadraceError]:
    return type(translate(KafkaException(KafkaError(code)), "doing it"))


def test_every_kafka_code_becomes_one_of_our_errors_and_keeps_its_name() -> None:
    assert len(CODES) > 150
    for name, code in CODES.items():
        for error in (KafkaError(code), KafkaException(KafkaError(code))):
            ours = translate(error, "reading t-0")
            assert type(ours) is not HeadraceError, name
            assert "reading t-0" in str(ours), name


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (errors.TopicMissing, "UNKNOWN_TOPIC_OR_PART UNKNOWN_TOPIC_ID _UNKNOWN_TOPIC _UNKNOWN_PARTITION"),
        (
            errors.NotAuthorized,
            "TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED "
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED SASL_AUTHENTICATION_FAILED _AUTHENTICATION",
        ),
        (errors.RecordTooLarge, "MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE"),
        (errors.RecordRejected, "INVALID_RECORD INVALID_TIMESTAMP UNSUPPORTED_COMPRESSION_TYPE"),
        (errors.CorruptData, "INVALID_MSG _BAD_MSG _BAD_COMPRESSION _UNDERFLOW"),
        (errors.TimedOut, "REQUEST_TIMED_OUT _TIMED_OUT _MSG_TIMED_OUT _TIMED_OUT_QUEUE"),
        (errors.SourceTruncated, "_AUTO_OFFSET_RESET _LOG_TRUNCATION"),
        (errors.Fenced, "_FENCED PRODUCER_FENCED INVALID_PRODUCER_EPOCH"),
        (
            errors.Unreachable,
            "_TRANSPORT _RESOLVE _ALL_BROKERS_DOWN _SSL _QUEUE_FULL _RETRY _WAIT_COORD "
            "LEADER_NOT_AVAILABLE NOT_LEADER_FOR_PARTITION NOT_ENOUGH_REPLICAS BROKER_NOT_AVAILABLE "
            "NETWORK_EXCEPTION NOT_CONTROLLER COORDINATOR_LOAD_IN_PROGRESS NOT_COORDINATOR "
            "KAFKA_STORAGE_ERROR THROTTLING_QUOTA_EXCEEDED CONCURRENT_TRANSACTIONS",
        ),
        (
            errors.Refused,
            "POLICY_VIOLATION INVALID_CONFIG INVALID_PARTITIONS INVALID_REPLICATION_FACTOR TOPIC_EXCEPTION "
            "UNSUPPORTED_VERSION _INVALID_ARG _FATAL _NOT_IMPLEMENTED _UNSUPPORTED_FEATURE",
        ),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_what_a_kafka_code_means(kind: type[HeadraceError], names: str) -> None:
    assert {name: meaning(CODES[name]) for name in names.split()} == dict.fromkeys(names.split(), kind)


def test_what_brokers_call_transient_may_be_asked_again() -> None:
    gone = {CODES["UNKNOWN_TOPIC_OR_PART"], CODES["UNKNOWN_TOPIC_ID"]}
    for code in TRANSIENT - gone:
        assert meaning(int(code)).retriable, code
