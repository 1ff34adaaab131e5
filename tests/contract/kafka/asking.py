"""Client for single requests to one broker, with kafka-python's messages and its own socket."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from kafka.protocol.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafka.protocol.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)

from tests.patience import PATIENCE_SECONDS, wait_until

T = TypeVar("T", bound=tuple[int, ...])

_SIZE: Final = struct.Struct(">i")
_NOT_YET: Final = frozenset({3, 5, 6, 14, 15, 16})
"""Error codes of brokers while a topic or a coordinator is being created."""
CONCURRENT: Final = 51
LATEST: Final = -1
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
_BY_ID_FROM: Final = 13


class BrokerClient:
    """One connection, with one request at a time."""

    def __init__(self, address: str) -> None:
        host, port = address.split(",")[0].rsplit(":", 1)
        self._address = (host, int(port))
        self._socket = socket.create_connection(self._address, PATIENCE_SECONDS)
        self._correlation = 0
        self._topic_ids: dict[str, UUID] = {}

    def ask(self, request: Any, response: Any, version: int) -> Any:
        """Return the response decoded by kafka-python. Raises ConnectionError if the broker disconnects."""
        self._correlation += 1
        request.API_VERSION = version
        request.with_header(correlation_id=self._correlation, client_id="contract")
        self._socket.sendall(request.encode(header=True, framed=True))
        (size,) = _SIZE.unpack(self._receive(_SIZE.size))
        frame = self._receive(size)
        assert _SIZE.unpack_from(frame)[0] == self._correlation
        return response.decode(frame, version=version, header=True)

    def hangs_up(self, request: Any, response: Any, version: int) -> bool:
        """Return whether the broker closes the connection instead of responding."""
        try:
            self.ask(request, response, version)
        except ConnectionError:
            self._socket.close()
            self._socket = socket.create_connection(self._address, PATIENCE_SECONDS)
            return True
        return False

    def close(self) -> None:
        """Close the connection of the channel."""
        self._socket.close()

    def _receive(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self._socket.recv(size - len(found))
            if not part:
                raise ConnectionError("the broker has closed the connection")
            found += part
        return found

    # Requests that return the relevant part of the response

    def create_topic(self, name: str, partitions: int = 1, **settings: str) -> int:
        """Create a topic and wait until it is writable; return the error code. Underscores stand for dots."""
        error = self.try_to_create(name, partitions, 1, {k.replace("_", "."): v for k, v in settings.items()})
        if not error:
            for number in range(partitions):
                wait_until(partial(self._has_leader, name, number), f"{name}-{number} has a leader")
            self._topic_ids[name] = self.metadata([name]).topics[0].topic_id
        return error

    def _has_leader(self, name: str, number: int) -> bool:
        return self.offset(name, LATEST, number)[0] == 0

    def try_to_create(self, name: str, partitions: int, replication: int, settings: Mapping[str, str]) -> int:
        """Request a new topic; return the error code."""
        topic = CreateTopicsRequest.CreatableTopic
        request = CreateTopicsRequest(
            topics=[
                topic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replication,
                    assignments=[],
                    configs=[
                        topic.CreatableTopicConfig(name=key, value=value) for key, value in settings.items()
                    ],
                )
            ],
            timeout_ms=15_000,
            validate_only=False,
        )
        return int(self.ask(request, CreateTopicsResponse, 7).topics[0].error_code)

    def metadata(self, topics: Sequence[str] | None, version: int = 12) -> Any:
        """Return the whole response."""
        wanted = None
        if topics is not None:
            wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        return self.ask(request, MetadataResponse, version)

    def topic_id(self, name: str) -> UUID:
        """Return the id of a topic created here."""
        return self._topic_ids[name]

    def offset(
        self,
        topic: str,
        when: int,
        partition: int = 0,
        *,
        committed: bool = False,
        epoch: int = -1,
        version: int = 7,
    ) -> tuple[int, int, int, int]:
        """Return (error, offset, timestamp, leader epoch) of ListOffsets."""
        kind = ListOffsetsRequest.ListOffsetsTopic
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=[
                kind(
                    name=topic,
                    partitions=[
                        kind.ListOffsetsPartition(
                            partition_index=partition, current_leader_epoch=epoch, timestamp=when
                        )
                    ],
                )
            ],
        )
        one = self.ask(request, ListOffsetsResponse, version).topics[0].partitions[0]
        return one.error_code, one.offset, one.timestamp, one.leader_epoch

    def produce(
        self, topic: str, *batches: bytes, version: int = 11, transaction: str | None = None, **fields: Any
    ) -> tuple[int, int]:
        """Return (error, base offset) of the batches, sent as separate entries of the partition."""
        (one,) = self.produce_whole(topic, batches, version, transaction, **fields)
        return one.error_code, one.base_offset

    def produce_whole(
        self,
        topic: str,
        batches: Sequence[bytes],
        version: int = 11,
        transaction: str | None = None,
        *,
        partition: int = 0,
        topic_id: UUID | None = None,
    ) -> list[Any]:
        """Return the responses for partitions."""
        kind = ProduceRequest.TopicProduceData
        if version >= _BY_ID_FROM:
            names: dict[str, Any] = {"topic_id": topic_id or self._topic_ids[topic]}
        else:
            names = {"name": topic}
        request = ProduceRequest(
            transactional_id=transaction,
            acks=-1,
            timeout_ms=20_000,
            topic_data=[
                kind(
                    **names,
                    partition_data=[kind.PartitionProduceData(index=partition, records=b) for b in batches],
                )
            ],
        )
        answer = self.ask(request, ProduceResponse, version)
        return [one for topic in answer.responses for one in topic.partition_responses]

    def fetch(self, topic: str, offset: int, *, version: int = 12, partition: int = 0, **fields: Any) -> Any:
        """Return the response for one partition; see `fetch_whole`."""
        answer = self.fetch_whole([(topic, partition, offset)], version=version, **fields)
        return answer.responses[0].partitions[0]

    def fetch_whole(
        self,
        places: Sequence[tuple[str, int, int]],
        *,
        version: int = 12,
        committed: bool = False,
        wait_ms: int = 0,
        size: int = 2**20,
        most: int = 2**23,
        session: tuple[int, int] = (0, -1),
        epoch: int = -1,
        last_epoch: int = -1,
        forgotten: Sequence[tuple[str, int]] = (),
        topic_id: UUID | None = None,
    ) -> Any:
        """Return the whole response for (topic, partition, offset)."""

        def named(name: str) -> dict[str, Any]:
            by_id = version >= _BY_ID_FROM
            return {"topic_id": topic_id or self._topic_ids[name]} if by_id else {"topic": name}

        kind = FetchRequest.FetchTopic
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=most,
            isolation_level=int(committed),
            session_id=session[0],
            session_epoch=session[1],
            topics=[
                kind(
                    **named(name),
                    partitions=[
                        kind.FetchPartition(
                            partition=number,
                            current_leader_epoch=epoch,
                            fetch_offset=offset,
                            last_fetched_epoch=last_epoch,
                            log_start_offset=-1,
                            partition_max_bytes=size,
                        )
                    ],
                )
                for name, number, offset in places
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(**named(name), partitions=[number]) for name, number in forgotten
            ],
            rack_id="",
        )
        return self.ask(request, FetchResponse, version)

    def delete_records(self, topic: str, before: int, partition: int = 0) -> tuple[int, int]:
        """Return (error, first offset) of DeleteRecords."""
        kind = DeleteRecordsRequest.DeleteRecordsTopic
        part = kind.DeleteRecordsPartition(partition_index=partition, offset=before)
        request = DeleteRecordsRequest(topics=[kind(name=topic, partitions=[part])], timeout_ms=20_000)
        one = self.ask(request, DeleteRecordsResponse, 2).topics[0].partitions[0]
        return one.error_code, one.low_watermark

    def find_coordinator(self, kind: int, key: str) -> None:
        """Wait until there is a coordinator."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        wait_until(
            lambda: self.ask(request, FindCoordinatorResponse, 4).coordinators[0].error_code == 0,
            f"a coordinator of {key}",
        )

    def producer(
        self,
        name: str | None,
        *,
        known: tuple[int, int] = (-1, -1),
        version: int = 4,
        patient: bool = True,
        timeout_ms: int = 60_000,
    ) -> tuple[int, int, int]:
        """Return (error, producer id, epoch); retry while the coordinator is loading or, if patient, busy."""
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            producer_id=known[0],
            producer_epoch=known[1],
        )

        def ask() -> tuple[int, int, int]:
            one = self.ask(request, InitProducerIdResponse, version)
            return one.error_code, one.producer_id, one.producer_epoch

        return settled(ask, _NOT_YET | {CONCURRENT}) if patient else settled(ask, _NOT_YET)

    def add(self, name: str, producer: tuple[int, int], topic: str, partition: int = 0) -> int:
        """Return the error code of AddPartitionsToTxn; retry while markers are written."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[partition])
            ],
        )

        def ask() -> tuple[int]:
            answer = self.ask(request, AddPartitionsToTxnResponse, 3)
            return (answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,)

        return settled(ask, {CONCURRENT})[0]

    def end(
        self, name: str, producer: tuple[int, int], *, commit: bool, version: int = 4
    ) -> tuple[int, int, int]:
        """Return (error, producer id, epoch) of EndTxn; retry while markers are written."""
        request = EndTxnRequest(
            transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )

        def ask() -> tuple[int, int, int]:
            one = self.ask(request, EndTxnResponse, version)
            return one.error_code, one.producer_id, one.producer_epoch

        return settled(ask, {CONCURRENT})

    def transaction(self, name: str) -> tuple[int, str, int, int]:
        """Return (error, state, producer id, epoch) of DescribeTransactions."""
        request = DescribeTransactionsRequest(transactional_ids=[name])
        one = self.ask(request, DescribeTransactionsResponse, 0).transaction_states[0]
        return one.error_code, one.transaction_state, one.producer_id, one.producer_epoch

    def transactional_ids(self, producer: int) -> list[str]:
        """Return the transactional ids of a producer id."""
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=[producer])
        answer = self.ask(request, ListTransactionsResponse, 0)
        assert answer.error_code == 0
        return [one.transactional_id for one in answer.transaction_states]


def settled(ask: Callable[[], T], passing: frozenset[int] | set[int]) -> T:
    """Return the first response without a transient error."""
    found: list[T] = []

    def is_settled() -> bool:
        found.append(ask())
        return found[-1][0] not in passing

    wait_until(is_settled, "a lasting response", interval_seconds=0.02)
    return found[-1]
