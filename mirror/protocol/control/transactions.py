"""Requests for producer ids and transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol import admin, producer

from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import NO_PRODUCER
from mirror.protocol.control.call import Call
from mirror.protocol.control.offsets import by_topic

NEW_EPOCH_FROM: Final = 5
"""First version in which EndTxn returns the producer id and epoch to continue with (KIP-890)."""

DESCRIBE_TRANSACTIONS: Final = 65
"""API key of DescribeTransactions."""


class ProducerIdentity(NamedTuple):
    """Producer id and epoch in a response; the id is -1 in responses with an error."""

    error: int
    producer_id: int
    epoch: int


class TransactionDescription(NamedTuple):
    """State of a transactional id ("Empty", "Ongoing", "CompleteAbort", …), with its producer id and epoch.

    The state is empty and the identity -1 in responses with an error.
    """

    error: int
    state: str
    producer_id: int
    epoch: int


def init_producer_id(
    transactional_id: str | None, timeout_ms: int, known: tuple[int, int] = (NO_PRODUCER, -1)
) -> Call[ProducerIdentity]:
    """Return a request that acquires the producer id of a transactional id, or bumps its epoch.

    Aborts an open transaction of the previous owner. `known`: producer id and epoch that the caller has. If
    `known` is given, the broker rejects the request if another producer has acquired the id in the meantime
    (KIP-360, version 3).
    """
    fields = {
        "transactional_id": transactional_id,
        "transaction_timeout_ms": timeout_ms,
        "producer_id": known[0],
        "producer_epoch": known[1],
    }
    lowest = 0 if known[0] == NO_PRODUCER else 3
    return Call(
        producer.InitProducerIdRequest, producer.InitProducerIdResponse, (lowest, 5), fields, _identity
    )


def _identity(response: Any) -> ProducerIdentity:
    return ProducerIdentity(response.error_code, response.producer_id, response.producer_epoch)


def add_partitions(
    transactional_id: str, identity: tuple[int, int], partitions: list[TopicPartition]
) -> Call[Mapping[TopicPartition, int]]:
    """Return a request that adds partitions to a transaction, and begins it if needed.

    The response is an error code for each partition.
    """
    fields = {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": identity[0],
        "v3_and_below_producer_epoch": identity[1],
        "v3_and_below_topics": [
            {"name": name, "partitions": numbers} for name, numbers in by_topic(partitions)
        ],
    }

    def read(response: Any) -> Mapping[TopicPartition, int]:
        return {
            TopicPartition(topic.name, result.partition_index): result.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }

    messages = (producer.AddPartitionsToTxnRequest, producer.AddPartitionsToTxnResponse)
    return Call(*messages, (0, 3), fields, read)


def end_transaction(
    transactional_id: str, identity: tuple[int, int], *, commit: bool, newest: int = NEW_EPOCH_FROM
) -> Call[ProducerIdentity]:
    """Return a request that commits or aborts a transaction.

    Before version 5, the producer id in the response is -1, and the caller keeps its producer id and epoch.

    `newest`: highest version of the request to use; 4 for a transaction whose partitions were added
    explicitly.
    """
    fields = {
        "transactional_id": transactional_id,
        "producer_id": identity[0],
        "producer_epoch": identity[1],
        "committed": commit,
    }
    return Call(producer.EndTxnRequest, producer.EndTxnResponse, (0, newest), fields, _identity)


def describe_transaction(transactional_id: str) -> Call[TransactionDescription]:
    """Return a request for the state of a transactional id (KIP-664, Kafka 3.0 or later)."""

    def read(response: Any) -> TransactionDescription:
        (state,) = response.transaction_states
        return TransactionDescription(
            state.error_code, state.transaction_state, state.producer_id, state.producer_epoch
        )

    messages = (admin.DescribeTransactionsRequest, admin.DescribeTransactionsResponse)
    return Call(*messages, (0, 0), {"transactional_ids": [transactional_id]}, read)


def list_transactions(producer_id: int) -> Call[tuple[int, tuple[str, ...]]]:
    """Return a request for the transactional ids of a producer id that the broker coordinates (KIP-664, Kafka
    3.0 or later). The response is an error code and the ids that this client may describe."""

    def read(response: Any) -> tuple[int, tuple[str, ...]]:
        found = (state.transactional_id for state in response.transaction_states)
        return response.error_code, tuple(found)

    messages = (admin.ListTransactionsRequest, admin.ListTransactionsResponse)
    return Call(*messages, (0, 0), {"state_filters": [], "producer_id_filters": [producer_id]}, read)
