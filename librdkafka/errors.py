"""Translation of confluent-kafka's errors.

`mirror.protocol.codes` classifies the error codes of brokers; this module classifies librdkafka's own
codes, which are negative.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from mirror.errors import (
    CorruptData,
    Fenced,
    HeadraceError,
    NotAuthorized,
    Refused,
    SourceTruncated,
    TimedOut,
    TopicMissing,
    Unreachable,
)
from mirror.protocol.codes import error_of

_BY_CODE: Final[dict[int, type[HeadraceError]]] = {
    KafkaError._UNKNOWN_TOPIC: TopicMissing,
    KafkaError._UNKNOWN_PARTITION: TopicMissing,
    KafkaError._AUTHENTICATION: NotAuthorized,
    KafkaError._AUTO_OFFSET_RESET: SourceTruncated,
    KafkaError._LOG_TRUNCATION: SourceTruncated,
    KafkaError._BAD_COMPRESSION: CorruptData,
    KafkaError._BAD_MSG: CorruptData,
    KafkaError._PARTIAL: CorruptData,
    KafkaError._UNDERFLOW: CorruptData,
    KafkaError._FENCED: Fenced,
    KafkaError._TIMED_OUT: TimedOut,
    KafkaError._TIMED_OUT_QUEUE: TimedOut,
    KafkaError._MSG_TIMED_OUT: TimedOut,
    KafkaError._FATAL: Refused,
    KafkaError._GAPLESS_GUARANTEE: Refused,
    KafkaError._INVALID_ARG: Refused,
    KafkaError._INVALID_TYPE: Refused,
    KafkaError._NOT_CONFIGURED: Refused,
    KafkaError._NOT_IMPLEMENTED: Refused,
    KafkaError._READ_ONLY: Refused,
    KafkaError._STATE: Refused,
    KafkaError._UNKNOWN_PROTOCOL: Refused,
    KafkaError._UNSUPPORTED_FEATURE: Refused,
}
"""Error classes of Headrace by error code of the client itself. All other codes of the client are transient
transport errors."""

_BROKER_TIMEOUT: Final = KafkaError.REQUEST_TIMED_OUT


def translate(error: KafkaError | KafkaException, operation: str) -> HeadraceError:
    """Return the HeadraceError for a client error; `operation`: the failed action."""
    kafka_error = error.args[0] if isinstance(error, KafkaException) else error
    assert isinstance(kafka_error, KafkaError)
    code = kafka_error.code()
    if code == _BROKER_TIMEOUT:
        return TimedOut(f"{operation}: {kafka_error.str()} ({kafka_error.name()})")
    if code > 0:
        return error_of(code, operation, kafka_error.str())
    kind = _BY_CODE.get(code, Unreachable)
    return kind(f"{operation}: {kafka_error.str()} ({kafka_error.name()})")
