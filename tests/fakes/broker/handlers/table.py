"""Handlers by api key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.fakes.broker.handlers import acls, api_versions
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.handlers.groups import (
    describe_groups,
    list_groups,
    offset_commit,
    offset_fetch,
    share_groups,
)
from tests.fakes.broker.handlers.records import (
    delete_records,
    describe_log_dirs,
    describe_producers,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from tests.fakes.broker.handlers.topics import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    metadata,
)
from tests.fakes.broker.handlers.transactions import (
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    find_coordinator,
    init_producer_id,
)

_ALL: Final = (
    produce.HANDLER,
    fetch.HANDLER,
    list_offsets.HANDLER,
    metadata.HANDLER,
    list_groups.HANDLER,
    offset_commit.HANDLER,
    offset_fetch.HANDLER,
    find_coordinator.HANDLER,
    create_topics.HANDLER,
    init_producer_id.HANDLER,
    offset_for_leader_epoch.HANDLER,
    add_partitions_to_txn.HANDLER,
    end_txn.HANDLER,
    describe_configs.HANDLER,
    create_partitions.HANDLER,
    describe_producers.HANDLER,
    describe_transactions.HANDLER,
    describe_transactions.LISTING,
    delete_records.HANDLER,
    delete_topics.HANDLER,
    describe_groups.HANDLER,
    describe_groups.CONSUMERS,
    describe_groups.STREAMS,
    *share_groups.HANDLERS,
    describe_log_dirs.HANDLER,
    *acls.HANDLERS,
)
_BASE: Final[Mapping[int, Handler]] = {handler.request.API_KEY: handler for handler in _ALL}
API_VERSIONS: Final = 18
HANDLERS: Final[Mapping[int, Handler]] = {**_BASE, API_VERSIONS: api_versions.handler(_BASE)}
