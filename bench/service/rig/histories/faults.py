"""Faults, and the pages and causes expected for each."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import psutil

from bench.service.rig.histories.site import BUDGET, Site
from monitor.causes.diagnosis import Cause
from stack.process.wait import wait_until
from stack.server import Server
from tests.freezing import frozen
from tests.kafka_data import Record, make_topic, produce
from tests.running import RunningInstance
from tests.throttling import WRITING, throttled

Act = Callable[[Site], object]
_HISTORY_MS: Final = 240_000
_PLACEMENT: Final = frozenset(
    {Cause.HOT_PARTITION, Cause.OVERLOADED_TASK, Cause.OVERLOADED_INSTANCE, Cause.OUR_QUOTA}
)


@dataclass(frozen=True)
class Fault:
    """A fault of the rig. `act`: breaks something and repairs it. `pages`: most alerts that may page.
    `causes`: causes that the incidents may record. `is_exempt`: records that it delays do not count as
    late."""

    name: str
    what: str
    act: Act
    pages: int = 1
    causes: frozenset[Cause] = frozenset()
    is_exempt: bool = False


def _kill(role: str, seconds: float) -> Act:
    def act(site: Site) -> None:
        site.servers[role].kill()
        time.sleep(seconds)
        site.servers[role].start()

    return act


def _freeze(role: str, seconds: float) -> Act:
    def act(site: Site) -> None:
        server: Server = site.servers[role]
        server.suspend()
        try:
            time.sleep(seconds)
        finally:
            server.resume()

    return act


def _create(site: Site) -> None:
    """Create a datastream with an error budget, on a topic with four minutes of records."""
    address, name = site.servers["source"].address, f"ledger-{time.time_ns()}"
    make_topic(address, name, 2)
    now_ms = round(time.time() * 1000)
    ages = range(0, _HISTORY_MS, 20)
    produce(
        address, name, [Record(age % 2, None, b"." * 200, (), now_ms - _HISTORY_MS + age) for age in ages]
    )
    site.create(name, name, 1, objectives=[BUDGET])
    time.sleep(25)
    site.ask(lambda rest: rest.delete(f"/v1/datastreams/{name}"))


def _pause(site: Site) -> None:
    site.ask(lambda rest: rest.post("/v1/datastreams/orders/pause", {"reason": "a look at the topic"}))
    time.sleep(40)
    site.ask(lambda rest: rest.post("/v1/datastreams/orders/resume"))


def _deploy(site: Site) -> None:
    """Restart all instances one after the other."""
    for instance in site.instances.values():
        instance.terminate()
        instance.start()
        wait_until(partial(_copies, site, instance.name), 60, f"{instance.name} copies")


def _copies(site: Site, name: str) -> bool:
    phases = {one["phase"] for one in site.get("/v1/lanes")["lanes"] if one["instance"] == name}
    return phases == {"copying"}


def _mistype(site: Site) -> None:
    """Send an update that would stop the datastream `clicks`."""
    at = next(instance.address for instance in site.instances.values())
    command = [sys.executable, "-m", "headrace", "datastream", "update", "orders"]
    done = subprocess.run(
        [*command, "--topics", "orders|clcks", "--at", at],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    topics = site.get("/v1/datastreams/orders")["source"]["topics"]
    if done.returncode == 0 or topics != "orders|clicks":
        raise AssertionError(f"the update was accepted: {done.stdout}{done.stderr}")


@contextmanager
def _our_quota(site: Site, rate: int) -> Iterator[None]:
    path = "/v1/datastreams/orders"
    site.ask(lambda rest: rest.patch(path, {"quota": {"bytes_per_second": rate}}, "*"))
    try:
        yield
    finally:
        site.ask(lambda rest: rest.patch(path, {"quota": {"bytes_per_second": None}}, "*"))


@contextmanager
def _broker_quota(site: Site, rate: int) -> Iterator[None]:
    with ExitStack() as stack:
        for name in site.instances:
            stack.enter_context(
                throttled(site.servers["destination"].address, WRITING, f"headrace-{name}", rate)
            )
        yield


def _has_incident(site: Site) -> bool:
    return bool(site.get("/v1/incidents", open="true"))


def _throttle_by_us(site: Site) -> None:
    with _our_quota(site, 12_000):
        time.sleep(40)


def _throttle_by_broker(site: Site) -> None:
    with _broker_quota(site, 6_000):
        time.sleep(40)


def _die_inside(site: Site) -> None:
    """Stop the source while the quota of a datastream has an incident open."""
    with _our_quota(site, 12_000):
        wait_until(lambda: _has_incident(site), 60, "an incident is open")
        time.sleep(10)
        _kill("source", 30)(site)


def _change_leader(site: Site) -> None:
    """Restart the leader while the quota of the destination has an incident open."""
    with _broker_quota(site, 6_000):
        wait_until(lambda: _has_incident(site), 60, "an incident is open")
        time.sleep(5)
        leader = site.leader()
        leader.terminate()
        time.sleep(20)
    leader.start()


def _worker(site: Site, act: Callable[[psutil.Process], None]) -> psutil.Process:
    control = psutil.Process(site.follower().pid)
    found: psutil.Process = control.children()[0]
    act(found)
    return found


def _kill_worker(site: Site) -> None:
    _worker(site, psutil.Process.kill)
    time.sleep(10)


def _freeze_worker(site: Site) -> None:
    worker = _worker(site, psutil.Process.suspend)
    time.sleep(40)
    if worker.is_running():
        worker.resume()


def _kill_instance(chosen: Callable[[Site], RunningInstance]) -> Act:
    def act(site: Site) -> None:
        instance = chosen(site)
        instance.kill()
        time.sleep(25)
        instance.start()

    return act


def _freeze_instance(site: Site) -> None:
    with frozen(site.follower().pid):
        time.sleep(30)


def _burst(site: Site) -> None:
    site.traffic.factors["orders"] = 20
    try:
        time.sleep(30)
    finally:
        site.traffic.factors.clear()


def _set_clocks(site: Site) -> None:
    site.traffic.clock_offset = -60.0
    try:
        time.sleep(40)
    finally:
        site.traffic.clock_offset = 0.0


def _lose_zookeeper(site: Site) -> None:
    _kill("zookeeper", 25)(site)
    for instance in site.instances.values():
        if not instance.is_alive():
            instance.start()


FAULTS: Final = (
    Fault("creation", "a datastream on a topic with 4 min of records", _create, 0),
    Fault("pause", "a pause of 40 s by an operator", _pause, 0, is_exempt=True),
    Fault("deploy", "a rolling restart of the instances", _deploy, 0, frozenset({Cause.INSTANCE_LOST})),
    Fault("typo", "an update that would stop a topic", _mistype, 0),
    Fault(
        "dead-source", "the source is killed for 60 s", _kill("source", 60), 1, frozenset({Cause.SOURCE_AWAY})
    ),
    Fault(
        "dead-source-inside",
        "the source is killed while our quota has an incident open",
        _die_inside,
        2,
        frozenset({Cause.SOURCE_AWAY, Cause.OUR_QUOTA}),
    ),
    Fault(
        "frozen-source",
        "the source is frozen for 40 s",
        _freeze("source", 40),
        1,
        frozenset({Cause.SOURCE_AWAY}),
    ),
    Fault(
        "dead-destination",
        "the destination is killed for 40 s",
        _kill("destination", 40),
        1,
        frozenset({Cause.DESTINATION_AWAY}),
    ),
    Fault(
        "frozen-destination",
        "the destination is frozen for 40 s",
        _freeze("destination", 40),
        1,
        frozenset({Cause.DESTINATION_AWAY}),
    ),
    Fault("killed-worker", "a worker process is killed", _kill_worker, 1, frozenset({Cause.WORKER_LOST})),
    Fault(
        "frozen-worker",
        "a worker process is frozen for 40 s",
        _freeze_worker,
        1,
        frozenset({Cause.WORKER_LOST}),
    ),
    Fault(
        "killed-leader",
        "the leader is killed for 25 s",
        _kill_instance(Site.leader),
        1,
        frozenset({Cause.INSTANCE_LOST}),
    ),
    Fault(
        "killed-follower",
        "another instance is killed for 25 s",
        _kill_instance(Site.follower),
        1,
        frozenset({Cause.INSTANCE_LOST}),
    ),
    Fault(
        "frozen-instance",
        "an instance is frozen for 30 s",
        _freeze_instance,
        1,
        frozenset({Cause.INSTANCE_LOST}),
    ),
    Fault("our-quota", "a low quota of the datastream", _throttle_by_us, 1, frozenset({Cause.OUR_QUOTA})),
    Fault(
        "broker-quota",
        "a low quota of clients at the destination",
        _throttle_by_broker,
        1,
        frozenset({Cause.BROKER_QUOTA}),
    ),
    Fault("burst", "20 times the traffic for 30 s", _burst, 1, _PLACEMENT),
    Fault("clocks", "clocks of producers 60 s behind", _set_clocks, 0, frozenset({Cause.WRONG_TIMESTAMPS})),
    Fault(
        "lost-zookeeper", "ZooKeeper is killed for 25 s", _lose_zookeeper, 1, frozenset({Cause.INSTANCE_LOST})
    ),
    Fault(
        "leader-change",
        "the leader restarts while a broker's quota has an incident open",
        _change_leader,
        1,
        frozenset({Cause.BROKER_QUOTA, Cause.INSTANCE_LOST}),
    ),
)


def wanted(names: str) -> list[Fault]:
    """Return the faults of that name, or all without a name. Raises SystemExit for an unknown one."""
    chosen = names.split()
    if unknown := sorted(set(chosen) - {one.name for one in FAULTS}):
        sys.exit(f"unknown: {', '.join(unknown)}; available: {', '.join(one.name for one in FAULTS)}")
    return [one for one in FAULTS if not chosen or one.name in chosen]
