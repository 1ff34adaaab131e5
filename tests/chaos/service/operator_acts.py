"""Actions of operators and other tenants during a run: over REST, and on topics of the source."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.console.client import RestClient
from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.definition_document import to_document
from mirror.errors import (
    AlreadyExists,
    IllegalTransition,
    InvalidRequest,
    NotFound,
    SessionLost,
    Unreachable,
)
from tests.builders import a_datastream
from tests.chaos.service.acts import Act, Outcome
from tests.chaos.service.arrivals import Place
from tests.chaos.service.reader import read_topic
from tests.chaos.service.schedule import Fault, Kind
from tests.chaos.service.site import Site
from tests.chaos.service.tenants import Participants, Style, Tenant
from tests.chaos.service.traffic import Writer
from tests.hostile import STORED_FIELDS, every_value

_GUEST_RATE = 20.0


@dataclass
class Operator:
    """Operator of datastreams. `writers`: by tenant name; `guests`: tenants created and deleted again."""

    site: Site
    cast: Participants
    writers: Mapping[str, Writer]
    guests: list[tuple[Tenant, Writer]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._run = self.cast.reborn.topic.partition(".")[0]

    def acts(self) -> Mapping[Kind, Act]:
        """Return the actions by kind."""
        return {
            Kind.PARTITIONS_PAUSED: self._pause_partitions,
            Kind.DATASTREAM_PAUSED: self._pause_datastream,
            Kind.REBALANCED: self._rebalance,
            Kind.MOVED: self._move,
            Kind.GUEST_CREATED: self._have_guest,
            Kind.HOSTILE_WRITTEN: self._write_hostile,
            Kind.TOPIC_GROWN: self._grow,
            Kind.TOPIC_RECREATED: self._re_create,
        }

    def create(self, tenant: Tenant) -> None:
        """Create the datastream of a tenant."""
        self.post(tenant.definition())

    def post(self, definition: dict[str, Any]) -> None:
        """Create a datastream, even if the response to an earlier attempt was lost."""

        def act(rest: RestClient) -> object:
            try:
                return rest.post("/v1/datastreams", definition)
            except AlreadyExists:
                return rest.get(f"/v1/datastreams/{definition['name']}")

        self.site.ask(act)

    def delete(self, name: str) -> None:
        """Delete a datastream and wait until REST no longer returns it."""
        path = f"/v1/datastreams/{name}"
        self._until_gone(lambda rest: rest.delete(path))
        while self._until_gone(lambda rest: rest.get(path)):
            self.site.wait(0.3)

    def _until_gone(self, act: Callable[[RestClient], object]) -> bool:
        """Return whether it existed."""
        try:
            self.site.ask(act)
        except NotFound:
            return False
        return True

    def _victim(self, fault: Fault) -> Tenant:
        return self.cast.tenants[int(fault.choice * len(self.cast.tenants))]

    def _places(self, tenant: Tenant) -> frozenset[Place]:
        return frozenset((tenant.copy, number) for number in range(self.writers[tenant.name].partitions))

    def _pause_partitions(self, fault: Fault) -> Outcome:
        tenant = self._victim(fault)
        number = int(fault.choice * 1_000) % self.writers[tenant.name].partitions
        path = f"/v1/datastreams/{tenant.name}"
        body: dict[str, Any] = {"partitions": {tenant.topic: str(number)}}
        self.site.ask(lambda rest: rest.post(f"{path}/pause-partitions", {**body, "reason": "a fault"}))
        self.site.wait(fault.seconds)
        self.site.ask(lambda rest: rest.post(f"{path}/resume-partitions", body))
        return Outcome(f"{tenant.topic}-{number}", frozenset({(tenant.copy, number)}))

    def _pause_datastream(self, fault: Fault) -> Outcome:
        tenant = self._victim(fault)
        self._change(tenant, "pause", "PAUSED")
        self.site.wait(fault.seconds)
        self._change(tenant, "resume", "READY")
        return Outcome(tenant.name, self._places(tenant))

    def _change(self, tenant: Tenant, action: str, status: str) -> None:
        """Change the status, even if the response to an earlier attempt was lost."""
        path = f"/v1/datastreams/{tenant.name}"

        def act(rest: RestClient) -> None:
            try:
                rest.post(f"{path}/{action}")
            except IllegalTransition:
                if rest.get(path)["status"] != status:
                    raise

        self.site.ask(act)

    def _rebalance(self, fault: Fault) -> Outcome:
        tenant = self._victim(fault)
        body = {"datastream": tenant.name, "full": True, "requested_by": "a fault"}
        return Outcome(tenant.name + self._unless_refused("/v1/rebalance", body))

    def _move(self, fault: Fault) -> Outcome:
        tenant = self._victim(fault)
        number = int(fault.choice * 1_000) % self.writers[tenant.name].partitions
        names = sorted(self.site.instances)
        target = names[int(fault.choice * 10_000) % len(names)]
        body = {"partitions": [f"{tenant.topic}-{number}"], "instance": target}
        refusal = self._unless_refused(f"/v1/datastreams/{tenant.name}/move", body)
        return Outcome(f"{tenant.topic}-{number} to {target}{refusal}")

    def _unless_refused(self, path: str, body: dict[str, Any]) -> str:
        """Post a request; return the refusal if the datastream is paused or the instance is down."""
        try:
            self.site.ask(lambda rest: rest.post(path, body))
        except NotFound:
            raise
        except InvalidRequest as refusal:
            return f" (refused: {refusal.message})"
        return ""

    def _have_guest(self, fault: Fault) -> Outcome:
        """Create the datastream of another team, and delete it while it copies."""
        name = f"guest-{next(self._numbers)}"
        guest = Tenant(f"{self._run}-{name}", f"{self._run}.{name}", 2, Style("lz4"))
        writer = Writer(self.site.source.address, guest.topic, 2, guest.style, _GUEST_RATE)
        self.guests.append((guest, writer))
        try:
            writer.start()
            self.create(guest)
            self.site.wait(fault.seconds)
            self.delete(guest.name)
            self.site.wait_until(lambda: writer.finish(1.0))
        finally:
            writer.give_up()
        address = self.site.source.address
        writer.lives.append(read_topic(address, guest.topic, 2, self.site.given_up))
        return Outcome(guest.name)

    def _write_hostile(self, fault: Fault) -> Outcome:
        """Write a definition to the store that no client could have sent, and delete it over REST."""
        name = f"{self._run}-hostile-{next(self._numbers)}"
        plain = to_document(a_datastream(name, f"{self._run}-nothing"))
        cases = [case for case in every_value(plain, STORED_FIELDS) if len(case[1]) <= node_codec.CHUNK_BYTES]
        what, data = cases[int(fault.choice * len(cases))]
        self.store(name, data)
        self.site.wait(fault.seconds)
        self.delete(name)
        return Outcome(f"{name}, {what}")

    def store(self, name: str, definition: bytes) -> None:
        """Write the definition of a datastream to the store, without the checks of the REST API."""
        while not self._store(znodes.child(znodes.DATASTREAMS, name), definition):
            self.site.wait(0.3)

    def _store(self, path: str, data: bytes) -> bool:
        """Return whether the store has the node, possibly from an earlier attempt whose response was lost."""
        session = self.site.store.session()
        try:
            session.start()
            session.create(path, data)
        except AlreadyExists:
            return True
        except (Unreachable, SessionLost):
            return False
        finally:
            session.stop()
        return True

    def _grow(self, _: Fault) -> Outcome:
        tenant = self.cast.growing
        writer = self.writers[tenant.name]
        writer.grow()
        return Outcome(f"{tenant.topic} to {writer.partitions} partitions")

    def _re_create(self, fault: Fault) -> Outcome:
        tenant = self.cast.reborn
        self.writers[tenant.name].re_create(self.site.given_up, fault.seconds)
        return Outcome(tenant.topic, self._places(tenant))
