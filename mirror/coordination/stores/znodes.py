"""Paths below the service's root, and transactions that change many nodes.

    /version                       format number; a newer one is rejected
    /secret                        shared secret by which instances authenticate each other
    /datastreams/<name>            definition (JSON)
    /creations/<key>               datastream created by a call with this idempotency key
    /deleted/<number>              names of deleted datastreams; many share a node
    /lost/<name>                   definition that an instance knows and that is missing without a deletion
    /guards/<number>               change counter of the groups and owners that share it
    /live/i-<sequence>             ephemeral: live instance; the lowest sequence leads
    /leaving/i-<sequence>          ephemeral: the instance leaves as soon as its tasks have moved
    /holdings/i-<sequence>         ephemeral: newest epoch that an instance obeys, lanes that it is still
                                   releasing, and groups whose lanes it may run
    /plan                          commit marker: epoch, reason, departed instances, names of all documents
    /plan/<group>/<epoch>-<writer>-…   tasks of a group on one instance as of that epoch
    /requests/r-<sequence>         requests from users and the monitor to the leader
    /operations/o-<sequence>       outcomes of requests, stops and deletions of one day, by group
    /proposals/p-<sequence>        computed plans for review, the latest of each group
    /events                        number of the first publication of events, random for each log
    /events/e-<sequence>           changes with their reasons, the latest of each group
    /loads/<instance>/<chunk>      rates measured by the instance
    /costs/<instance>              cost of copying on the instance, by group and hour
    /observations/<cluster>        index of the load observations of a source cluster that the leader keeps
    /observations/<cluster>/<time>-…   one observation
    /chosen-observations/<provider>:<cluster>   as /observations/<cluster>, for a load provider chosen by
                                   datastreams
    /assessments/<group>           result of the latest planning run of a group
    /advice                        recommended number of tasks and instances
    /clusters/<name>               id reported by the cluster that definitions call by this name
    /written/<name>                id of the only cluster that is read and written under this name
    /made/<group>                  destination topics created for a group of datastreams
    /adopted/<group>               destination topics that existed before the group and that it writes
    /beginnings/<datastream>       partitions at the first planning run of a datastream that starts at the end
    /problems/<datastream>         problem of a datastream, and its start
    /troubles/i-<sequence>         ephemeral: groups with stalled lanes on an instance, with the reason
    /quotas/i-<sequence>           ephemeral: groups with lanes throttled by a quota on an instance
    /no-topics/i-<sequence>        ephemeral: groups with lanes on an instance without a destination topic
    /import                        exists while a state is imported, so that no instance starts
    /topic-use/<cluster>/<number>  when the topics of a cluster were first seen, written and read; many topics
                                   share a node
    /retirements/<key>             retirement of a topic that is in progress
    /drills/<pair>                 ephemeral: a drill of the pair runs
    /monitor                       active monitor, whether it may act, and actions of monitors of one day

`node_codec` encodes their content. `record_folder` caches folders that are listed often.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final, TypeVar
from urllib.parse import quote, unquote

from mirror.bulkheads import Bulkhead
from mirror.errors import (
    AlreadyExists,
    NotFound,
    SessionLost,
    Unreachable,
    VersionConflict,
)
from mirror.loggers import get_logger
from mirror.model.nodes import NewNode, Node, NodeChange, NodeDeletion, NodeWrite
from mirror.model.reasons import reason_of
from mirror.ports import NodeStore

_log = get_logger(__name__)
_K = TypeVar("_K")
FORMAT: Final = 2
VERSION: Final = "/version"
SHARED_KEY: Final = "/secret"
DATASTREAMS: Final = "/datastreams"
CREATIONS: Final = "/creations"
DELETED: Final = "/deleted"
LOST: Final = "/lost"
GUARDS: Final = "/guards"
LIVE: Final = "/live"
LEAVING: Final = "/leaving"
HOLDINGS: Final = "/holdings"
PLAN: Final = "/plan"
REQUESTS: Final = "/requests"
OPERATIONS: Final = "/operations"
PROPOSALS: Final = "/proposals"
EVENTS: Final = "/events"
LOADS: Final = "/loads"
COSTS: Final = "/costs"
OBSERVATIONS: Final = "/observations"
CHOSEN_OBSERVATIONS: Final = "/chosen-observations"
ASSESSMENTS: Final = "/assessments"
ADVICE: Final = "/advice"
CLUSTERS: Final = "/clusters"
BOUND: Final = "/written"
MADE: Final = "/made"
ADOPTED: Final = "/adopted"
BEGINNINGS: Final = "/beginnings"
PROBLEMS: Final = "/problems"
TROUBLES: Final = "/troubles"
QUOTAS: Final = "/quotas"
NO_TOPICS: Final = "/no-topics"
ACTING: Final = "/monitor"
IMPORT: Final = "/import"
TOPIC_USE: Final = "/topic-use"
DR: Final = "/dr"
"""State of each pair of clusters that `headrace dr` manages."""
DRILLS: Final = "/drills"
"""Pairs of clusters for which a drill is running."""
RETIREMENTS: Final = "/retirements"

MOST_CHANGES: Final = 100
MOST_CHANGED_BYTES: Final = 256 * 1024
"""Maximum size in bytes of a transaction for several datastreams or groups.

ZooKeeper accepts requests up to 1 MiB.
"""
_SHORT: Final = 250


def child(parent: str, name: str) -> str:
    """Return the path of a child node.

    `name`: any text, which is encoded.
    """
    quoted = quote(name, safe=" ()[]{}!@$^&*+=,;:'~", errors="surrogatepass")
    return f"{parent}/{quoted.replace('.', '%2E') if quoted in {'.', '..'} else quoted}"


def short_child(parent: str, name: str) -> str:
    """Return the path of a child node, with a digest for a long or unprintable name. A digest cannot be
    decoded."""
    if len(name) <= _SHORT and name.isprintable():
        return child(parent, name)
    return f"{parent}/{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


@lru_cache(16_384)
def name_of(node: str) -> str:
    """Return the text that `child` has encoded in a node name. Other node names are returned unchanged."""
    name = unquote(node)
    return name if child("", name) == f"/{node}" else node


def put(nodes: NodeStore, path: str, data: bytes, *, ephemeral: bool = False) -> None:
    """Create or write a node, unless it already has this content. Raises VersionConflict on a concurrent
    write.

    `ephemeral`: create an ephemeral node.
    """
    node: Node | None = None
    with suppress(NotFound):
        node = nodes.read(path)
    if node is None or node.data != data:
        put_over(nodes, path, data, None if node is None else node.version, ephemeral=ephemeral)


def put_over(
    nodes: NodeStore, path: str, data: bytes, version: int | None, *, ephemeral: bool = False
) -> None:
    """Write a node that has this version, or create it if `version` is None. Raises VersionConflict."""
    try:
        if version is None:
            nodes.create(path, data, ephemeral=ephemeral)
        else:
            nodes.write(path, data, version)
    except (AlreadyExists, NotFound) as error:
        raise VersionConflict(f"{path} was written concurrently; retry") from error


def replacements(nodes: NodeStore, wanted: Mapping[str, bytes]) -> dict[str, tuple[NodeChange, ...]]:
    """Map each path to the changes that create its node or replace its content.

    The changes are empty for unchanged nodes. Reads all nodes in one batch.
    """
    present = nodes.read_present(list(wanted)) if wanted else {}
    found: dict[str, tuple[NodeChange, ...]] = {}
    for path, data in wanted.items():
        node = present.get(path)
        if node is None:
            found[path] = (NewNode(path, data),)
        else:
            found[path] = (NodeWrite(path, data, node.version),) if node.data != data else ()
    return found


def deletions(nodes: NodeStore, paths: Sequence[str]) -> dict[str, tuple[NodeChange, ...]]:
    """Map each path to the change that deletes its node, or to no change if the node is missing."""
    present = nodes.read_present(paths) if paths else {}
    return {path: (NodeDeletion(path),) if path in present else () for path in paths}


def change_each(
    nodes: NodeStore,
    wanted: Mapping[_K, Sequence[NodeChange]],
    on_applied: Callable[[Sequence[_K]], None],
    apply_alone: Callable[[_K], None],
) -> None:
    """Apply the changes of many keys in a few transactions. If a transaction fails, apply its keys singly.

    `on_applied`: callback with the keys whose changes were applied. `apply_alone`: callback for each key of a
    failed transaction, which applies the changes of that key and reports errors. Raises Unreachable,
    SessionLost, and errors of the callbacks.
    """
    for some in _batches(wanted):
        changes = [change for key in some for change in wanted[key]]
        if len(some) > 1 and _is_applied(nodes, changes):
            on_applied(some)
        else:
            for key in some:
                apply_alone(key)


def _is_applied(nodes: NodeStore, changes: Sequence[NodeChange]) -> bool:
    """Apply changes in one transaction. Return False if it fails, so that the caller retries each key."""

    def failed(error: Exception) -> None:
        _log.info("transaction failed; applying its changes one by one", reason=reason_of(error))

    with Bulkhead(failed, through=(Unreachable, SessionLost)):
        if changes:
            nodes.change_together(changes)
        return True
    return False


def _batches(wanted: Mapping[_K, Sequence[NodeChange]]) -> Iterator[list[_K]]:
    """Yield batches of keys whose changes fit into one transaction, in order."""
    batch: list[_K] = []
    count = size = 0
    for key, changes in wanted.items():
        more = sum(0 if isinstance(change, NodeDeletion) else len(change.data) for change in changes)
        if batch and (count + len(changes) > MOST_CHANGES or size + more > MOST_CHANGED_BYTES):
            yield batch
            batch, count, size = [], 0, 0
        batch.append(key)
        count, size = count + len(changes), size + more
    if batch:
        yield batch
