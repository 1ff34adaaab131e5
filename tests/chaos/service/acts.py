"""What is broken by each kind of fault, and how it comes back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import psutil

from stack.server import Server
from tests.chaos.service.arrivals import Place
from tests.chaos.service.schedule import Fault, Kind
from tests.chaos.service.site import Site
from tests.freezing import frozen
from tests.running import RunningInstance


@dataclass(frozen=True)
class Outcome:
    """What a fault hit; `silenced`: partitions of the destination that were to be silent meanwhile."""

    victim: str
    silenced: frozenset[Place] = frozenset()


Act = Callable[[Fault], Outcome]
"""Does what the fault says and undoes it; raises Interrupted when the run is given up meanwhile."""


def acts_on(site: Site) -> Mapping[Kind, Act]:
    """Everything that is done to processes and servers."""
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
    return acts


def _on_server(site: Site, server: Server, act: Callable[[Site, Server, float], None]) -> Act:
    def carry_out(fault: Fault) -> Outcome:
        act(site, server, fault.seconds)
        return Outcome(server.name)

    return carry_out


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
    """Instances and their workers."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def kill_instance(self, fault: Fault) -> Outcome:
        """The machine loses power and comes back."""
        with self._site.taken(fault.choice, leader=fault.at_leader) as instance:
            instance.kill()
            self._site.wait(fault.seconds)
            self._site.bring_back(instance)
            return Outcome(instance.name)

    def restart_instance(self, fault: Fault) -> Outcome:
        """As in a rolling upgrade. One that does not end in time is killed, as a process manager does."""
        with self._site.taken(fault.choice, leader=fault.at_leader) as instance:
            os.kill(instance.pid, signal.SIGTERM)
            instance.stop()
            self._site.wait(fault.seconds)
            self._site.bring_back(instance)
            return Outcome(instance.name)

    def freeze_instance(self, fault: Fault) -> Outcome:
        """The machine is suspended."""
        with self._site.taken(fault.choice, leader=fault.at_leader) as instance:
            with frozen(instance.pid):
                self._site.wait(fault.seconds)
            return Outcome(instance.name)

    def freeze_control_process(self, fault: Fault) -> Outcome:
        """The workers go on, up to the end of their lease."""
        with self._site.taken(fault.choice, leader=fault.at_leader) as instance:
            control = psutil.Process(instance.pid)
            control.suspend()
            try:
                self._site.wait(fault.seconds)
            finally:
                control.resume()
            return Outcome(instance.name)

    def kill_worker(self, fault: Fault) -> Outcome:
        """It runs out of memory."""
        with self._site.taken(fault.choice, leader=fault.at_leader) as instance:
            _, name = self._hit_worker(instance, fault.choice, psutil.Process.kill)
            return Outcome(name)

    def freeze_worker(self, fault: Fault) -> Outcome:
        """It hangs; the control process may kill it meanwhile."""
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
        """The worker that `act` was done to, and its name. An instance without a lease ends its workers
        itself: one that is gone before `act` reaches it does not count."""
        control = psutil.Process(instance.pid)
        while True:
            if workers := control.children():
                number = int(choice * 1_000) % len(workers)
                with suppress(psutil.NoSuchProcess):
                    act(workers[number])
                    return workers[number], f"{instance.name} worker {number}"
            self._site.wait(0.1)
