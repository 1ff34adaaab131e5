"""Results of finished operations in the coordination store, kept for at most a day."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from mirror.coordination.operation import (
    OPERATION_ID,
    Operation,
    OperationState,
    from_stored_operation,
    to_stored_operation,
    waiting,
)
from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.record_folder import ChildrenCache, surplus
from mirror.coordination.stores.requests import MOST_OF_GROUP, MOST_PENDING, PlacementRequest, Request
from mirror.errors import CorruptData, InvalidRequest
from mirror.loggers import get_logger
from mirror.model.nodes import NextNode
from mirror.model.reasons import damage_of
from mirror.ports import NodeStore

MOST_OUTCOMES: Final = MOST_PENDING
"""Maximum number of stored results of operations.

Equal to the maximum number of pending requests, so that all results are kept even if all requests end at the
same time.
"""

OUTCOMES_OF_GROUP: Final = 50
"""Maximum number of stored results of operations per group."""

LASTS_MS: Final = 24 * 3_600_000

_log = get_logger(__name__)
_NODE: Final = re.compile(r"o-[0-9]{10}")


def outcome_entries(operation: Operation | None) -> tuple[NextNode, ...]:
    """Return the node that stores the result of a finished operation, for the transaction that ends it.
    Returns an empty tuple for an invalid id, because Headrace did not create such a queue entry."""
    if operation is None or not OPERATION_ID.fullmatch(operation.id):
        return ()
    return (NextNode(f"{znodes.OPERATIONS}/o-", node_codec.encode(to_stored_operation(operation))),)


def superseded_by(newer: PlacementRequest) -> Callable[[Request], tuple[NextNode, ...]]:
    """Return a function that creates the result node of a request replaced by a newer one of its group."""

    def entries(request: Request) -> tuple[NextNode, ...]:
        sentence = f"replaced by newer requests: the limit is {MOST_OF_GROUP} pending requests per group"
        failed = replace(waiting(request), state=OperationState.FAILED, sentence=sentence)
        return outcome_entries(replace(failed, finished_ms=newer.requested_ms))

    return entries


class OutcomeStore:
    """Reads and trims the stored results of operations.

    `outcome_entries` stores a result in the transaction that ends the operation. Only the leader trims.
    """

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._folder = ChildrenCache(nodes, znodes.OPERATIONS, _read_outcome)

    def newest(self, now_ms: int) -> tuple[Operation, ...]:
        """Return the stored results of operations, newest first. Damaged results are logged and omitted."""
        known = {
            node: outcome for node, outcome in sorted(self._folder.newest().items()) if _NODE.fullmatch(node)
        }
        dropped = set(_surplus(known))
        kept = [outcome for node, outcome in reversed(known.items()) if node not in dropped]
        return tuple(outcome for outcome in kept if not _is_old(outcome, now_ms))

    def trim(self, now_ms: int) -> None:
        """Drop expired results, and the oldest results of each group above the limit."""
        known = self._folder.newest()
        nodes = [node for node in self._nodes.children(znodes.OPERATIONS) if _NODE.fullmatch(node)]
        old = [node for node in nodes if node in known and _is_old(known[node], now_ms)]
        unknown = [node for node in nodes if node not in known]
        mine = {node: known[node] for node in nodes if node in known}
        for node in sorted({*unknown[:-MOST_OUTCOMES], *_surplus(mine), *old}):
            self._nodes.delete_tree(f"{znodes.OPERATIONS}/{node}")


def _surplus(known: Mapping[str, Operation]) -> Sequence[str]:
    groups = {node: outcome.datastream for node, outcome in known.items()}
    return surplus(groups, lambda _: OUTCOMES_OF_GROUP, MOST_OUTCOMES)


def _is_old(operation: Operation, now_ms: int) -> bool:
    return operation.finished_ms is not None and operation.finished_ms + LASTS_MS <= now_ms


def _read_outcome(path: str, data: bytes) -> Operation | None:
    try:
        return from_stored_operation(node_codec.decode(data, path))
    except (CorruptData, InvalidRequest) as error:
        _log.warning("cannot read the outcome of an operation", path=path, reason=damage_of(error))
        return None
