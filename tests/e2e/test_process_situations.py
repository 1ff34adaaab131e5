"""Reports while ZooKeeper, a worker or an instance is down: every signal shows it; no unknown lag is 0."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

import psutil
import pytest

from stack.process.suspension import freeze
from stack.zookeeper import ZooKeeperServer
from tests.delaying import SlowPort
from tests.e2e.conftest import NewInstance, NewSlowPort, on_zookeeper
from tests.freezing import frozen
from tests.running import RunningInstance
from tests.scene import PARTITIONS, Scene, Shown, is_0_somewhere, lanes_are
from tests.servers import KafkaPair
from tests.situations import PROCESSES, Snapshot

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

SLOW_SECONDS: Final = 0.75
"""Delay in each direction: an iteration with several requests outlasts the lease of the shortest session."""


@contextmanager
def killed(server: ZooKeeperServer) -> Iterator[None]:
    """Kill the server within the context."""
    server.kill()
    try:
        yield
    finally:
        server.start()


@contextmanager
def suspended(server: ZooKeeperServer) -> Iterator[None]:
    """Freeze the server within the context."""
    server.suspend()
    try:
        yield
    finally:
        server.resume()


class Processes:
    """Produces situations of processes."""

    def __init__(
        self, zookeeper: ZooKeeperServer, way: SlowPort, new_second: Callable[[], RunningInstance]
    ) -> None:
        """Create it. `way`: proxy between ZooKeeper and the queried instance."""
        self._zookeeper = zookeeper
        self._way = way
        self._new_second = new_second

    def __call__(self, scene: Scene, situation: str, ending: ExitStack) -> None:
        if situation.startswith("another instance"):
            scene.instances.append(self._new_second())
        scene.begin_copied(limits={"min_tasks": PARTITIONS, "max_tasks": PARTITIONS})
        match situation:
            case "ZooKeeper is frozen":
                ending.enter_context(suspended(self._zookeeper))
            case "ZooKeeper is dead":
                ending.enter_context(killed(self._zookeeper))
            case "ZooKeeper is slow":
                ending.enter_context(self._way.delayed(SLOW_SECONDS))
            case "a worker process is frozen":
                freeze(_worker(scene))
            case "a worker process was killed":
                os.kill(_worker(scene), signal.SIGKILL)
            case "another instance froze, and its session expired":
                ending.enter_context(frozen(scene.instances[1].pid))
            case _:
                scene.instances.pop(0).kill()
        scene.write()


def _worker(scene: Scene) -> int:
    (worker,) = psutil.Process(scene.instance.pid).children()
    return worker.pid


def is_taken_over(seen: Snapshot) -> bool:
    """Return whether the queried instance copies everything, and events report moved partitions."""
    return {"move", "plan"} <= set(seen.events) and lanes_are(seen, "copying") and seen.status == 200


def is_slow(seen: Snapshot) -> bool:
    """Return whether health reports slowness while every lane copies, without stops, moves or restarts."""
    part = "coordination session"
    is_remarked = part in seen.parts and part not in seen.ill
    answers = "no answer" not in seen.events and "status" in seen.datastream
    return is_remarked and answers and seen.status == 200 and lanes_are(seen, "copying")


def are_given_up(seen: Snapshot) -> bool:
    """Return whether nothing is copied here, and data stored only in ZooKeeper is marked as old."""
    return (
        seen.status == 503
        and "follower" in seen.ill
        and lanes_are(seen, "waiting")
        and not is_0_somewhere(seen)
        and all("given up" in lane["reason"] for lane in seen.lanes)
        and "as_of_ms" in seen.datastream
    )


SHOWN: Final[Mapping[str, Shown]] = {
    "ZooKeeper is frozen": are_given_up,
    "ZooKeeper is dead": are_given_up,
    "ZooKeeper is slow": is_slow,
    "a worker process is frozen": lambda seen: (
        seen.status == 503
        and "follower" in seen.ill
        and lanes_are(seen, "paused")
        and not is_0_somewhere(seen)
    ),
    "a worker process was killed": lambda seen: (
        seen.status == 503
        and "follower" in seen.ill
        and lanes_are(seen, "waiting")
        and not is_0_somewhere(seen)
        and all("no worker process" in lane["reason"] for lane in seen.lanes)
    ),
    "another instance froze, and its session expired": is_taken_over,
    "the leader was killed, and another instance leads": is_taken_over,
}
"""Conditions under which each situation is shown correctly."""


def test_a_process_that_is_away_is_shown_where_people_look(
    slow_port: NewSlowPort,
    kafka_pair: KafkaPair,
    new_zookeeper: Callable[..., ZooKeeperServer],
    new_instance: NewInstance,
    service_name: str,
) -> None:
    zookeeper = new_zookeeper()
    way = slow_port(zookeeper.address)
    settings = on_zookeeper(zookeeper, service_name)
    through_proxy = {**settings, "zookeeper__servers": way.here}
    one = new_instance("one", mirror__worker__restart_delay_seconds="10", **through_proxy)
    new_second = partial(new_instance, "two", **settings)
    Scene(kafka_pair, one).rows(PROCESSES, Processes(zookeeper, way, new_second), SHOWN)
