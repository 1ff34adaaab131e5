"""Client quotas of real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

from kafka.protocol.admin import AlterClientQuotasRequest, AlterClientQuotasResponse

from tests.contract.kafka.asking import BrokerClient

_VERSION: Final = 1


READING: Final = "consumer_byte_rate"
WRITING: Final = "producer_byte_rate"


@contextmanager
def throttled(address: str, quota: str, client_id: str, bytes_per_second: float) -> Iterator[None]:
    """Limit the read or write rate of clients with that id within the context.

    An empty id sets the quota of all ids that have no quota of their own.
    """
    _alter(address, quota, client_id, bytes_per_second, remove=False)
    try:
        yield
    finally:
        _alter(address, quota, client_id, 0.0, remove=True)


def _alter(address: str, quota: str, client_id: str, rate: float, *, remove: bool) -> None:
    entry = AlterClientQuotasRequest.EntryData
    entity = entry.EntityData(entity_type="client-id", entity_name=client_id or None, version=_VERSION)
    change = entry.OpData(key=quota, value=rate, remove=remove, version=_VERSION)
    request = AlterClientQuotasRequest(
        entries=[entry(entity=[entity], ops=[change], version=_VERSION)],
        validate_only=False,
        version=_VERSION,
    )
    with closing(BrokerClient(address)) as client:
        answer = client.ask(request, AlterClientQuotasResponse, _VERSION)
    assert [one.error_code for one in answer.entries] == [0]
