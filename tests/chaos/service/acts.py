"""Actions of each kind of fault, and their undoing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import psutil

from stack.server import Server
from tests.chaos.service.arrivals import Place
from tests.chaos.service.schedule import Fault, Kind
from tests.chaos.service.site import Site
from tests.coordination_stores import KafkaStore
from tests.freezing import frozen
from tests.running import RunningInstance


@dataclass(frozen=True)
class Outcome:
    """Result of a fault. `silenced`: destination partitions that received no records on purpose."""

    victim: str
    silenced: frozenset[Place] = frozenset()


Act = Callable[[Fault], Outcome]
"""Performs a fault and undoes it; raises Interrupted if the run is aborted meanwhile."""


def acts_on(site: Site) -> Mapping[Kind, Act]:
    """Return the actions on processes and servers by kind."""
    machines = _Machines(site)
    acts: dict[Kind, Act] = {
        Kind.INSTANCE_KILLED: machines.kill_instance,
        Kind.INSTANCE_FROZEN: machines.freeze_instance,
        Kind.CONTROL_FROZEN: machines.freeze_control_process,
        Kind.INSTANCE_RESTARTED: machines.restart_instance,
        Kind.WORKER_KILLED: machines.kill_worker,
        Kind.WORKER_FROZEN: machines.freeze_worker,
    }
    for name, server in site.servers.items():
        for kind, act in (("killed", _kill), ("frozen", _freeze), ("restarted", _restart)):
            found = [one for one in Kind if one.lower() == f"{name} {kind}"]
            acts |= {one: _on_server(site, server, act) for one in found}
    acts |= {
        Kind.STORE_KILLED: _on_store(site, _kill),
        Kind.STORE_FROZEN: _on_store(site, _freeze),
        Kind.STORE_RESTARTED: _on_store(site, _restart),
    }
    if isinstance(site.store, KafkaStore):
        acts[Kind.LOG_TRIMMED] = partial(_trim_log, site, site.store)
    return acts


def _on_server(site: Site, server: Server, act: Callable[[Site, Server, float], None]) -> Act:
    def carry_out(fault: Fault) -> Outcome:
        act(site, server, fault.seconds)
        return Outcome(server.name)

    return carry_out


def _on_store(site: Site, act: Callable[[Site, Server, float], None]) -> Act:
    """Return an action on a server of the store, after which the preferred leader is elected."""

    def carry_out(fault: Fault) -> Outcome:
        server = site.store.victim(fault.choice, site.wait)
        act(site, server, fault.seconds)
        site.store.settle(site.wait)
        return Outcome(server.name)

    return carry_out


def _trim_log(site: Site, store: KafkaStore, fault: Fault) -> Outcome:
    """Trim the log behind the position of an instance that is frozen meanwhile."""
    with site.taken(fault.choice, leader=fault.at_leader) as instance:
        with frozen(instance.pid):
            store.trim(site.wait)
            site.wait(fault.seconds)
        return Outcome(instance.name)


def _kill(site: Site, server: Server, seconds: float) -> None:
    server.kill()
    site.wait(seconds)
    server.start(site.given_up)


def _restart(site: Site, server: Server, seconds: float) -> None:
    server.stop()
    site.wait(seconds)
    server.start(site.given_up)


def _freeze(site: Site, server: Server, seconds: float) -> None:
    server.suspend()
    try:
        site.wait(seconds)
    finally:
        server.resume()


class _Machines:
    """Faults of instances and their workers."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def kill_instance(self, fault: Fault) -> Outcome:
        """Kill an instance and restart it, as after a power failure of its host."""
        with self._site.taken(fault.choice, leader=fault.at_leader) as instance:
            instance.kill()
            self._site.wait(fault.seconds)
            self._site.bring_back(instance)
            return Outcome(instance.name)

    def restart_instance(self, fault: Fault) -> Outcome:
        """Restart as in a rolling upgrade.

        An instance that does not exit in time is killed, as by a process manager.
        """
        with self._site.taken(fault.choice, leader=fault.at_leader) as instance:
            os.kill(instance.pid, signal.SIGTERM)
            instance.stop()
            self._site.wait(fault.seconds)
            self._site.bring_back(instance)
            return Outcome(instance.name)

    def freeze_instance(self, fault: Fault) -> Outcome:
        """Freeze an instance with its workers, as if its host were suspended."""
        with self._site.taken(fault.choice, leader=fault.at_leader) as instance:
            with frozen(instance.pid):
                self._site.wait(fault.seconds)
            return Outcome(instance.name)

    def freeze_control_process(self, fault: Fault) -> Outcome:
        """Freeze the control process only: the workers continue until their lease expires."""
        with self._site.taken(fault.choice, leader=fault.at_leader) as instance:
            control = psutil.Process(instance.pid)
            control.suspend()
            try:
                self._site.wait(fault.seconds)
            finally:
                control.resume()
            return Outcome(instance.name)

    def kill_worker(self, fault: Fault) -> Outcome:
        """Kill a worker, as if it ran out of memory."""
        with self._site.taken(fault.choice, leader=fault.at_leader) as instance:
            _, name = self._hit_worker(instance, fault.choice, psutil.Process.kill)
            return Outcome(name)

    def freeze_worker(self, fault: Fault) -> Outcome:
        """Freeze a worker; the control process may kill it meanwhile."""
        with self._site.taken(fault.choice, leader=fault.at_leader) as instance:
            worker, name = self._hit_worker(instance, fault.choice, psutil.Process.suspend)
            try:
                self._site.wait(fault.seconds)
            finally:
                with suppress(psutil.NoSuchProcess):
                    worker.resume()
            return Outcome(name)

    def _hit_worker(
        self, instance: RunningInstance, choice: float, act: Callable[[psutil.Process], None]
    ) -> tuple[psutil.Process, str]:
        """Apply `act` to a worker and return it with its name.

        Retries if the worker has exited first, since an instance without a lease stops its workers.
        """
        control = psutil.Process(instance.pid)
        while True:
            if workers := control.children():
                number = int(choice * 1_000) % len(workers)
                with suppress(psutil.NoSuchProcess):
                    act(workers[number])
                    return workers[number], f"{instance.name} worker {number}"
            self._site.wait(0.1)
