"""Proposed plans in the coordination store; any instance can show and apply them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from mirror.coordination.outcome_store import superseded_by
from mirror.coordination.proposals.proposal import Proposal, from_stored, to_stored
from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.record_folder import NodeGroups, surplus
from mirror.coordination.stores.requests import ApplyRequest, RequestQueue
from mirror.errors import DamagedState, IllegalTransition, InvalidRequest, NotFound, VersionConflict
from mirror.model.bounds import shown
from mirror.model.nodes import NodeWrite
from mirror.model.reasons import damage_of
from mirror.ports import NodeStore

MOST_KEPT: Final = 200
KEPT_OF_GROUP: Final = 20
_NODE: Final = re.compile("p-[0-9]{10}")


@dataclass(frozen=True)
class StoredProposal:
    """A stored proposal with its id and the version of its node."""

    identity: str
    proposal: Proposal
    version: int

    def check_not_applied(self) -> None:
        """Raise IllegalTransition if the queue already contains a request to apply the proposal."""
        if self.proposal.asked_by is not None:
            raise IllegalTransition(f"plan {self.identity} was already applied by {self.proposal.asked_by}")


class ProposalStore:
    """Stores the latest proposed plans: `KEPT_OF_GROUP` per group, and `MOST_KEPT` in total."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._requests = RequestQueue(nodes)
        self._groups = NodeGroups(nodes, znodes.PROPOSALS, _group_of)

    def add(self, proposal: Proposal) -> str:
        """Store a proposed plan, and return its id. Raises InvalidRequest if it does not fit into a node."""
        path = self._nodes.create(f"{znodes.PROPOSALS}/p-", _data(proposal), sequential=True)
        identity = path.rpartition("/")[2]
        self._groups.note(identity, proposal.group)
        nodes = self._nodes.children(znodes.PROPOSALS)
        if len(nodes) > KEPT_OF_GROUP:
            for node in surplus(self._groups.of(nodes), lambda _: KEPT_OF_GROUP, MOST_KEPT):
                self._nodes.delete_tree(f"{znodes.PROPOSALS}/{node}")
        return identity

    def get(self, identity: str) -> StoredProposal:
        """Return the stored proposal with an id. Raises NotFound, DamagedState."""
        if not _NODE.fullmatch(identity):
            raise _missing(identity)
        path = f"{znodes.PROPOSALS}/{identity}"
        try:
            node = self._nodes.read(path)
        except NotFound as error:
            raise _missing(identity) from error
        try:
            return StoredProposal(
                identity, from_stored(node_codec.decode_chunks([node.data], path)), node.version
            )
        except (InvalidRequest, ValueError) as error:
            raise DamagedState(f"node {path} does not contain a plan: {damage_of(error)}") from error

    def ask_for(self, stored: StoredProposal, request: ApplyRequest) -> ApplyRequest:
        """Queue and return a request to apply a proposed plan. A proposal can be applied only once. Raises
        IllegalTransition if it was applied since it was read, NotFound if it was dropped."""
        proposal = replace(stored.proposal, asked_by=request.requested_by)
        write = NodeWrite(f"{znodes.PROPOSALS}/{stored.identity}", _data(proposal), stored.version)
        try:
            identity = self._requests.add(request, superseded_by(request), (write,))
        except VersionConflict as error:
            self.get(stored.identity).check_not_applied()
            raise IllegalTransition(
                f"plan {stored.identity} was modified concurrently", advice="repeat the request"
            ) from error
        return replace(request, identity=identity)


def _group_of(path: str, data: bytes) -> str:
    """Return the group of a stored proposal; empty if the node is unreadable."""
    try:
        return from_stored(node_codec.decode_chunks([data], path)).group
    except (DamagedState, InvalidRequest, ValueError):
        return ""


def _data(proposal: Proposal) -> bytes:
    chunks = node_codec.encode_chunks(to_stored(proposal))
    if len(chunks) > 1:
        raise InvalidRequest(
            "the plan is too large to store for review",
            advice="apply the rebalance directly (headrace rebalance --apply)",
        )
    return chunks[0]


def _missing(identity: str) -> NotFound:
    return NotFound(f"plan {shown(identity)} does not exist", advice="compute a new plan")
