"""Error codes of brokers, their names, and the corresponding errors of Headrace.

Only this module maps codes to errors. Callers act on the class of the error: retry if `retriable`, stop if
`fatal`, otherwise pause the lane. Source: Apache Kafka, `Errors`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from mirror.errors import (
    CorruptData,
    Fenced,
    HeadraceError,
    NotAuthorized,
    RecordRejected,
    RecordTooLarge,
    Refused,
    TopicMissing,
    Unreachable,
)


class Code(IntEnum):
    """Kafka error codes that the mirror handles."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    UNKNOWN_MEMBER_ID = 25
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    TRANSACTION_ABORTABLE = 120


MISSING: Final = frozenset({Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID})
"""Codes for a topic that does not exist, or that the broker does not know yet."""
MOVED: Final = MISSING | frozenset(
    {
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REPLICA_NOT_AVAILABLE,
        Code.KAFKA_STORAGE_ERROR,
        Code.LISTENER_NOT_FOUND,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.INCONSISTENT_TOPIC_ID,
    }
)
"""Codes of a broker that does not lead the partition, or does not know it yet.

The caller refreshes the metadata, which also show whether the topic was deleted.
"""

TRANSIENT: Final = MOVED | {
    Code.REQUEST_TIMED_OUT,
    Code.BROKER_NOT_AVAILABLE,
    Code.NETWORK_EXCEPTION,
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
    Code.NOT_ENOUGH_REPLICAS,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Code.NOT_CONTROLLER,
    Code.CONCURRENT_TRANSACTIONS,
    Code.OPERATION_NOT_ATTEMPTED,
    Code.OFFSET_NOT_AVAILABLE,
    Code.UNSTABLE_OFFSET_COMMIT,
    Code.THROTTLING_QUOTA_EXCEEDED,
    Code.REBALANCE_IN_PROGRESS,
}
"""Codes after which the same request may succeed on retry."""

MAYBE_STORED: Final = MOVED | {
    Code.REQUEST_TIMED_OUT,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Code.NETWORK_EXCEPTION,
}
"""Produce codes after which the destination may have stored the batch.

A leader that loses its leadership while it waits for the replicas returns a code of `MOVED`, although the new
leader may have the batch.
"""

COORDINATOR_MOVED: Final = frozenset(
    {Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR}
)

SEQUENCE_LOST: Final = frozenset(
    {
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
        Code.DUPLICATE_SEQUENCE_NUMBER,
        Code.UNKNOWN_PRODUCER_ID,
        Code.INVALID_PRODUCER_ID_MAPPING,
        Code.TRANSACTION_ABORTABLE,
        Code.INVALID_TXN_STATE,
    }
)
"""Codes which prove that the lane's view of the destination log is wrong.

The lane then reads the end of the log, and starts over.
"""

FENCED: Final = frozenset({Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED})

_CLASSES: Final[dict[int, type[HeadraceError]]] = {
    Code.CORRUPT_MESSAGE: CorruptData,
    Code.UNKNOWN_TOPIC_OR_PARTITION: TopicMissing,
    Code.UNKNOWN_TOPIC_ID: TopicMissing,
    Code.MESSAGE_TOO_LARGE: RecordTooLarge,
    Code.RECORD_LIST_TOO_LARGE: RecordTooLarge,
    Code.INVALID_TIMESTAMP: RecordRejected,
    Code.INVALID_RECORD: RecordRejected,
    Code.UNSUPPORTED_COMPRESSION_TYPE: RecordRejected,
    Code.UNKNOWN_SERVER_ERROR: RecordRejected,
    Code.TOPIC_AUTHORIZATION_FAILED: NotAuthorized,
    Code.GROUP_AUTHORIZATION_FAILED: NotAuthorized,
    Code.CLUSTER_AUTHORIZATION_FAILED: NotAuthorized,
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: NotAuthorized,
    Code.SASL_AUTHENTICATION_FAILED: NotAuthorized,
    Code.UNSUPPORTED_SASL_MECHANISM: NotAuthorized,
    Code.INVALID_PRODUCER_EPOCH: Fenced,
    Code.PRODUCER_FENCED: Fenced,
    Code.TRANSACTION_COORDINATOR_FENCED: Unreachable,
}


def name_of(code: int) -> str:
    """Return an error code as text, such as `NOT_LEADER_OR_FOLLOWER (6)`; `error N` if unrecognised."""
    try:
        return f"{Code(code).name} ({code})"
    except ValueError:
        return f"error {code}"


_RIGHTS: Final[dict[int, tuple[str, str]]] = {
    Code.TOPIC_AUTHORIZATION_FAILED: ("topic", "Read or Write on the topic"),
    Code.GROUP_AUTHORIZATION_FAILED: ("group", "Read on the consumer group"),
    Code.CLUSTER_AUTHORIZATION_FAILED: ("cluster", "IdempotentWrite on the cluster"),
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "transactional id",
        "Write on transactional ids with the prefix headrace",
    ),
}
"""Resource type of each authorization error, and the permission that is usually missing."""
SOMEBODY: Final = "the user of this cluster"


def error_of(
    code: int, doing: str, message: str = "", *, right: str = "", principal: str = SOMEBODY
) -> HeadraceError:
    """Return the exception for an error code of a broker.

    `doing`: start of the message, such as `cannot read topic orders`. `message`: error message of the broker.
    `right`: permissions that the operation requires, such as `Read on topic orders`; an authorization error
    mentions them if they name the resource type of the error. `principal`: user that needs the permissions.
    """
    kind = _CLASSES.get(code) or (Unreachable if code in TRANSIENT else Refused)
    suffix = f" ({message})" if message else ""
    advice = ""
    if code in _RIGHTS:
        resource, usual = _RIGHTS[code]
        advice = f"grant {right if resource in right else usual} to {principal}"
    return kind(f"{doing}: broker returned {name_of(code)}{suffix}", advice=advice)
