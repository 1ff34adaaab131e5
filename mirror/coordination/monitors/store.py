"""Lease, permission and rebalances of monitors in the coordination store. Thread-safe."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from mirror.coordination.monitors.state import (
    LEASE_SECONDS,
    ActingState,
    MonitorAct,
    MonitorLease,
    Switch,
    document_of,
    state_of,
)
from mirror.coordination.outcome_store import superseded_by
from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.requests import RebalanceRequest, RequestQueue
from mirror.errors import DamagedState, IllegalTransition, InvalidRequest, NotFound, VersionConflict
from mirror.loggers import get_logger
from mirror.model.identifiers import DatastreamName
from mirror.model.nodes import NodeWrite
from mirror.ports import Clock, NodeStore

_log = get_logger(__name__)
_ATTEMPTS: Final = 5
_IDENTITY_BYTES: Final = 8
_ADVICE: Final = "a monitor may act only on evaluations made under its current lease; acquire the lease first"


class ActingStore:
    """Shared state of monitors in the coordination store. Each instance measures the age of the lease from
    the time at which it first read the latest renewal."""

    def __init__(self, nodes: NodeStore, requests: RequestQueue, clock: Clock) -> None:
        self._nodes = nodes
        self._requests = requests
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: tuple[str, int] = ("", 0)
        self._seen_at = 0.0

    def state(self) -> ActingState:
        """Return the stored state of monitors. Raises Unreachable."""
        return self._read()[0]

    def waiting(self, state: ActingState) -> DatastreamName | None:
        """Return the datastream for which a monitor has requested a rebalance not planned yet, or None."""
        waiting = [request for request in self._requests.waiting() if isinstance(request, RebalanceRequest)]
        return state.waiting(waiting)

    def hold(self, holder: str, instance: int | None, live: Callable[[], Collection[int]]) -> ActingState:
        """Renew the lease of this monitor, or acquire the lease if it is free. Raises Unreachable.

        The returned state may contain the lease of another monitor. `live`: callback that returns the
        sequence numbers of live instances.
        """

        def held(state: ActingState) -> ActingState:
            found = state.lease
            if found is not None and found.holder == holder:
                return replace(state, lease=replace(found, renewals=found.renewals + 1))
            if found is None or self._is_over(found) or _holder_is_gone(found, live):
                return replace(
                    state, lease=MonitorLease(secrets.token_hex(_IDENTITY_BYTES), holder, instance)
                )
            return state

        return self._change(held)

    def release(self, holder: str) -> None:
        """Release the lease, so that another monitor can acquire it immediately. Raises Unreachable."""
        self._change(
            lambda state: (
                replace(state, lease=None) if state.lease and state.lease.holder == holder else state
            )
        )

    def switch(self, switch: Switch) -> ActingState:
        """Permit or forbid rebalances by monitors. Raises Unreachable."""
        return self._change(lambda state: replace(state, switch=switch))

    def act(self, identity: str, name: DatastreamName, request: RebalanceRequest) -> str:
        """Queue a rebalance request of the monitor that holds the lease, and return the id of the request.

        Raises IllegalTransition if the monitor does not hold the lease, if rebalances by monitors are
        forbidden, or if another rebalance is pending; Unreachable.
        """
        act = MonitorAct(name, request.group, request.requested_ms)
        for _ in range(_ATTEMPTS):
            state, version = self._read()
            self._check(state, identity)
            if version is None:
                break
            stored = NodeWrite(znodes.ACTING, node_codec.encode(document_of(state.acted(act))), version)
            try:
                return self._requests.add(request, superseded_by(request), (stored,))
            except VersionConflict:
                continue  # the lease was renewed or released concurrently
        raise VersionConflict("too many concurrent updates of the monitor state", advice="retry the request")

    def _check(self, state: ActingState, identity: str) -> None:
        if not state.switch.is_on:
            raise IllegalTransition(f"rebalances by monitors are switched off: {state.switch.reason}")
        if state.lease is None or state.lease.identity != identity:
            raise IllegalTransition("this monitor no longer holds the lease", advice=_ADVICE)
        if self._is_over(state.lease):
            raise IllegalTransition(
                f"this monitor has not renewed its lease for {LEASE_SECONDS:g} s", advice=_ADVICE
            )
        if waiting := self.waiting(state):
            raise IllegalTransition(f"the rebalance of {waiting} requested by a monitor is still pending")

    def _is_over(self, lease: MonitorLease) -> bool:
        with self._lock:
            now, renewal = self._clock.monotonic(), (lease.identity, lease.renewals)
            if renewal != self._seen:
                self._seen, self._seen_at = renewal, now
            return now - self._seen_at >= LEASE_SECONDS

    def _change(self, become: Callable[[ActingState], ActingState]) -> ActingState:
        for _ in range(_ATTEMPTS):
            before, version = self._read()
            after = become(before)
            if after == before:
                return after
            try:
                znodes.put_over(self._nodes, znodes.ACTING, node_codec.encode(document_of(after)), version)
            except VersionConflict:
                continue
            if after.lease is not None:
                self._is_over(after.lease)  # starts to measure the new renewal
            return after
        raise VersionConflict("too many concurrent updates of the monitor state", advice="retry the request")

    def _read(self) -> tuple[ActingState, int | None]:
        """Return the state of monitors and its node version, or None as version if no state is stored.

        If the stored state is unreadable, rebalances are forbidden until an operator permits them again.
        """
        try:
            node = self._nodes.read(znodes.ACTING)
        except NotFound:
            return ActingState(), None
        try:
            return state_of(node_codec.decode(node.data, znodes.ACTING)), node.version
        except (DamagedState, InvalidRequest) as error:
            _log.error("cannot read the state of monitors", reason=str(error))
            reason = f"cannot read the stored state: {error}"
            return ActingState(Switch(is_on=False, reason=reason, requested_by="headrace")), node.version


def _holder_is_gone(lease: MonitorLease, live: Callable[[], Collection[int]]) -> bool:
    return lease.instance is not None and lease.instance not in live()
