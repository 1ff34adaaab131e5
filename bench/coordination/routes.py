"""Time to create one more datastream when 2,000 exist between two clusters, half in each direction.

ZooKeeper is real. Cluster metadata is simulated, so the time to list topics is not measured.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from headrace.process.interpreter import collect_seldom
from mirror.adapters.settings import ZooKeeperSettings
from mirror.adapters.system_clock import SystemClock
from mirror.adapters.zookeeper import ZooKeeper
from mirror.control.admission import Admission, ClusterRights
from mirror.control.commands import CreateDatastream
from mirror.control.handlers import Control, ControlStores
from mirror.coordination.datastream_records.made_topics import MadeTopics
from mirror.coordination.stores import znodes
from mirror.coordination.stores.cluster_ids import BoundClusters, ClusterIds, KnownClusters
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.plan_store import NO_PLAN, LatestPlan, PlanStore
from mirror.coordination.stores.requests import RequestQueue
from mirror.instance.discovery.preparation import TopicClaims, TopicRules
from mirror.instance.discovery.questions import ClusterRequests
from mirror.instance.discovery.route_gate import RouteGate
from mirror.instance.discovery.route_map import RouteMap
from mirror.instance.discovery.route_watch import RouteWatch
from mirror.instance.discovery.topic_discovery import TopicDiscovery
from mirror.loggers import set_threshold
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.topics import TopicNaming, TopicSelection
from stack.ports import free_ports
from stack.zookeeper import ZooKeeperServer
from tests.fakes.instances import AtOnce
from tests.fakes.topic_admin import FakeTopicAdmin

DATASTREAMS, TOPICS_EACH = 2_000, 5
_EAST, _WEST = ClusterRef("east"), ClusterRef("west")
_SHAPES: Final = {
    "names kept": ("*", "*", "team-{n:04}-.*"),
    "topics with a prefix, in both directions": ("east.*", "west.*", "team-{n:04}-.*"),
    "same names, one topic list per direction": ("*", "*", "^(team-{n:04}-0|team-{n:04}-1|team-{n:04}-2)$"),
}


def _datastream(number: int, templates: tuple[str, str], expression: str) -> Datastream:
    back = number % 2
    source, destination = (_WEST, _EAST) if back else (_EAST, _WEST)
    return Datastream(
        name=DatastreamName(f"stream-{number:04}"),
        source=source,
        selection=TopicSelection(expression.format(n=number)),
        destination=destination,
        naming=TopicNaming(templates[back]),
        metadata={"owner": "bench", "system.creation.ms": str(number)},
    )


def _clusters() -> dict[ClusterRef, FakeTopicAdmin]:
    """Return both clusters, each with the topics of half of the teams; no mirrored topic exists yet."""
    names: dict[ClusterRef, dict[str, int]] = {_EAST: {}, _WEST: {}}
    for number in range(DATASTREAMS + 10):
        home = _WEST if number % 2 else _EAST
        names[home] |= {f"team-{number:04}-{topic}": 8 for topic in range(TOPICS_EACH)}
    return {cluster: FakeTopicAdmin(**topics) for cluster, topics in names.items()}


def _measure(session: ZooKeeper, shape: str) -> None:
    there, back, expression = _SHAPES[shape]
    clusters, clock, store = _clusters(), SystemClock(), DefinitionStore(session)
    for number in range(DATASTREAMS):
        store.create(_datastream(number, (there, back), expression))
    rules = TopicRules(
        BoundClusters(session),
        TopicClaims(MadeTopics(session), MadeTopics(session, znodes.ADOPTED)),
        most_partitions=1000,
    )
    questions = ClusterRequests(lambda cluster: clusters[cluster], 60.0)
    route_map, plan = RouteMap(ClusterIds(session), rules.own), LatestPlan(PlanStore(session, "bench"))
    gate = RouteGate(route_map, KnownClusters(session), questions, plan, clock)
    stores = ControlStores(store, RequestQueue(session), Membership(session), EventLog(session))
    control = Control.build(stores, Admission(dict.fromkeys((_EAST, _WEST), ClusterRights())), clock, gate)
    news = [_datastream(number, (there, back), expression) for number in range(DATASTREAMS, DATASTREAMS + 5)]
    creations = [_timed(partial(control.creations.create, CreateDatastream(new))) for new in news]
    far_sighted = TopicDiscovery(lambda cluster: clusters[cluster], clock, 60.0, AtOnce(), rules)
    leader = RouteWatch(far_sighted, ClusterIds(session), rules.own)
    judged = _timed(partial(leader.check, control.list().datastreams, NO_PLAN.plan))
    figures = (creations[0], max(creations[1:]), judged)
    print(f"  {shape:34} " + "  ".join(f"{cpu:8.2f} {wall:7.2f}" for cpu, wall in figures), flush=True)


def _timed(step: Callable[[], object]) -> tuple[float, float]:
    """Return the CPU and wall-clock seconds of a creation."""
    cpu, wall = time.process_time(), time.perf_counter()
    step()
    return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    """Measure each shape under a separate ZooKeeper root."""
    collect_seldom()
    set_threshold("error")
    with ExitStack() as exit_stack:
        folder = exit_stack.enter_context(tempfile.TemporaryDirectory())
        server = ZooKeeperServer("zookeeper", Path(folder), free_ports(1)[0])
        server.start()
        exit_stack.callback(server.stop)
        print(
            f"{DATASTREAMS} datastreams, {DATASTREAMS * TOPICS_EACH} topics; CPU and wall seconds of one more"
            " creation, and of the leader's check of all datastreams"
        )
        print(f"  {'':34} {'first creation':>16}  {'slowest of 4':>16}  {'check of all':>16}")
        for number, shape in enumerate(_SHAPES):
            settings = ZooKeeperSettings(servers=server.address, root=f"/bench-{number}")
            session = ZooKeeper(settings)
            session.start()
            exit_stack.callback(session.stop)
            _measure(session, shape)
