"""Continuous audits during a run: no false verdict, and no watermark ahead of the truth.

The truth is read by another client: the end offsets of both sides, before and after the service states a
watermark, and finally the records of both sides by offset.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition

from tests.chaos.service.arrivals import Place
from tests.chaos.service.reader import new_consumer, read_offsets
from tests.chaos.service.site import AUDIT_LATENESS_SECONDS, AUDIT_WINDOW_SECONDS, Interrupted, Site
from tests.chaos.service.tenants import Tenant

_LOOK_SECONDS: Final = 1.0
_CALL_SECONDS: Final = 2.0
MOST_BEHIND_SECONDS: Final = 2 * AUDIT_WINDOW_SECONDS
Ends = Mapping[Place, int]


@dataclass(frozen=True)
class Statement:
    """A watermark as the service stated it: everything that the source held at `held` (epoch seconds) is at
    the destination, before the offsets `ends`."""

    topic: str
    at: float
    held: float
    ends: Ends


@dataclass
class AuditWatch:
    """Statements and verdicts of the audits of a run, collected by a thread until `stop`."""

    site: Site
    tenants: Sequence[Tenant]
    statements: list[Statement] = field(default_factory=list)
    sources: list[tuple[float, Ends]] = field(default_factory=list)
    """Ends of the source's logs, with a time at which it held the records before them."""
    verdicts: set[str] = field(default_factory=set)
    longest_lag: float = 0.0
    """Largest number of seconds by which a watermark was behind the truth."""

    def __post_init__(self) -> None:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audits")

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def finish(self) -> None:
        """End the thread, and look once more at the settled service."""
        self.stop()
        self._look()

    def stop(self) -> None:
        """End the thread."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS):
            try:
                self._look()
            except Interrupted:
                return
            except KafkaException:
                continue  # a cluster is down: this look states nothing

    def _look(self) -> None:
        held = self._ends(self.site.source.address, [tenant.topic for tenant in self.tenants])
        self.sources.append((time.time(), held))
        found = self.audits()
        ends = self._ends(self.site.destination.address, [tenant.copy for tenant in self.tenants])
        for tenant in self.tenants:
            one = found.get(tenant.name)
            if one is None:
                continue
            self.verdicts |= {f"{tenant.name}: {fault}" for fault in one["faults"]}
            through_ms = one["complete_through_ms"]
            if through_ms is not None:
                held = through_ms / 1_000 + AUDIT_LATENESS_SECONDS
                self.statements.append(Statement(tenant.topic, time.time(), held, ends))

    def audits(self) -> dict[str, dict[str, Any]]:
        """Return the audits of the service by datastream."""
        answer = self.site.ask(lambda rest: rest.get("/v1/audits"))
        return {topic["datastream"]: topic for topic in answer["topics"]}

    @staticmethod
    def _ends(address: str, topics: Collection[str]) -> Ends:
        consumer = new_consumer(address)
        try:
            known = consumer.list_topics(timeout=_CALL_SECONDS).topics
            places = [
                TopicPartition(topic, number)
                for topic in topics
                if topic in known
                for number in known[topic].partitions
            ]
            return {
                (place.topic, place.partition): consumer.get_watermark_offsets(place, _CALL_SECONDS)[1]
                for place in places
            }
        finally:
            consumer.close()

    def behind(self) -> list[str]:
        """Return the datastreams whose watermark has not reached the present, or that are not audited."""
        found, now = self.audits(), time.time()
        lacking = []
        for tenant in self.tenants:
            one = found.get(tenant.name)
            if one is None:
                lacking.append(f"{tenant.name} is not audited")
            elif one["waiting_offsets"] or one["problem"]:
                lacking.append(f"{tenant.name}: {one['waiting_offsets']} waiting, {one['problem']}")
            elif one["complete_through_ms"] is None:
                lacking.append(f"{tenant.name} has no watermark")
            elif now - one["complete_through_ms"] / 1_000 > AUDIT_LATENESS_SECONDS + AUDIT_WINDOW_SECONDS:
                lacking.append(f"{tenant.name} is complete only through {one['complete_through_ms']}")
        return lacking

    def violations(self, stable: Collection[Tenant]) -> list[str]:
        """Return false verdicts, and statements that were ahead of the truth or far behind it. `stable`:
        tenants whose topics were not created again."""
        found = [f"false verdict of an audit: {verdict}" for verdict in sorted(self.verdicts)]
        for tenant in stable:
            statements = [one for one in self.statements if one.topic == tenant.topic]
            if not statements:
                found.append(f"{tenant.name}: no watermark")
                continue
            here = read_offsets(self.site.source.address, tenant.topic, self.site.given_up)
            there = read_offsets(self.site.destination.address, tenant.copy, self.site.given_up)
            behind = 0.0
            for one in statements:
                missing = missing_records(one, tenant, here, there)
                ahead = self.ahead(one, missing)
                if ahead:
                    found.append(f"the watermark of {tenant.name} was ahead of {ahead} records at {one.at}")
                behind = max(behind, self.behind_truth(one, missing))
            if behind > MOST_BEHIND_SECONDS:
                found.append(f"the watermark of {tenant.name} was {behind:.0f} s behind the records")
            self.longest_lag = max(self.longest_lag, behind)
        return found

    def ahead(self, one: Statement, missing: Mapping[Place, Sequence[int]]) -> int:
        """Return the number of records that a statement claims and that were not at the destination."""
        known = [ends for at, ends in self.sources if at <= one.held]
        held = known[-1] if known else {}
        return sum(offset < held.get(place, 0) for place, offsets in missing.items() for offset in offsets)

    def behind_truth(self, one: Statement, missing: Mapping[Place, Sequence[int]]) -> float:
        """Return the seconds by which a statement is earlier than it could be. While the destination does not
        respond, the truth does not advance either."""
        first = {place: min(offsets, default=inf) for place, offsets in missing.items()}
        true = (
            at
            for at, ends in self.sources
            if at <= one.at and all(ends.get(place, 0) <= offset for place, offset in first.items())
        )
        return max(0.0, max(true, default=0.0) - one.held)


def missing_records(
    one: Statement,
    tenant: Tenant,
    here: Mapping[int, Mapping[Any, int]],
    there: Mapping[int, Mapping[Any, int]],
) -> dict[Place, list[int]]:
    """Return the source offsets of the records that were not at the destination."""
    found = {}
    for number, records in here.items():
        copied, end = there.get(number, {}), one.ends.get((tenant.copy, number), 0)
        found[tenant.topic, number] = [
            offset for record, offset in records.items() if copied.get(record, end) >= end
        ]
    return found
