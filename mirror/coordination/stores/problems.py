"""Problems of individual datastreams, stored by the leader and readable by every instance.

The leader skips a step that has failed for a datastream. Running lanes continue, and other datastreams are
not affected. The problem ends when the step succeeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.record_folder import RecordFolder
from mirror.errors import CorruptData
from mirror.loggers import get_logger
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.reasons import legible
from mirror.ports import NodeStore

_log = get_logger(__name__)
_MOST_TROUBLES: Final = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a datastream. `since_ms`: start time (epoch ms).

    `sets_aside`: False for a warning: the datastream is copied, but perhaps not as its owner expects.
    `is_told`: False if the problem is not published as an event, because it depends on the traffic.
    """

    reason: str
    since_ms: int
    sets_aside: bool = True
    is_told: bool = True


class ProblemStore(RecordFolder[DatastreamName, Problem]):
    """Stores the problem of each datastream. Only the leader writes."""

    def __init__(self, nodes: NodeStore) -> None:
        super().__init__(nodes, znodes.PROBLEMS, DatastreamName, _data_of, _read_problem)


def _data_of(problem: Problem) -> bytes:
    return node_codec.encode({**asdict(problem), "reason": legible(problem.reason)})


def _read_problem(path: str, data: bytes) -> Problem:
    try:
        document = node_codec.decode(data, path)
        sets_aside, is_told = (document.get(name) is not False for name in ("sets_aside", "is_told"))
        return Problem(legible(document["reason"]), int(document["since_ms"]), sets_aside, is_told)
    except (CorruptData, KeyError, TypeError, ValueError) as error:
        return Problem(f"node {path} is unreadable ({type(error).__name__})", 0)


class TroubleStore:
    """Stores the groups whose lanes are slow, and the reasons, as reported by each instance.

    One folder for each kind: `TROUBLES` (stalled), `QUOTAS` (throttled), `NO_TOPICS` (without a destination
    topic). The nodes are ephemeral.
    """

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes

    def publish(self, folder: str, sequence: int, troubles: Mapping[GroupName, str]) -> None:
        """Replace the groups that an instance reports in a folder. Stores only the first names in order."""
        path = f"{folder}/i-{sequence:010}"
        if not troubles:
            self._nodes.delete(path)
            return
        chosen = sorted(troubles)[:_MOST_TROUBLES]
        data = node_codec.encode({legible(group): legible(troubles[group]) for group in chosen})
        znodes.put(self._nodes, path, data, ephemeral=True)

    def of(self, folder: str) -> Mapping[GroupName, str]:
        """Map each group in a folder to the reason reported by one of its instances."""
        found: dict[GroupName, str] = {}
        paths = [f"{folder}/{node}" for node in self._nodes.children(folder)]
        for path, node in self._nodes.read_present(paths).items():
            try:
                document = node_codec.decode(node.data, path)
            except CorruptData as error:
                _log.warning("cannot read the slow lanes of an instance", reason=str(error))
                continue
            for group, reason in document.items():
                found.setdefault(GroupName(group), legible(str(reason)))
        return found
