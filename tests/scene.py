"""Situations on real servers: a datastream for each, all reports on it, and its removal."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from typing import Any, Final
from uuid import uuid4

import httpx

from headrace.console.client import RestClient, tls_context
from mirror.errors import HeadraceError
from mirror.model.datastreams.lanes import QuotaOwner
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicSelection
from monitor.adapters.lane_answers import evidence_of
from monitor.adapters.rest_service import RestService
from monitor.causes.diagnosis import Diagnosis
from monitor.causes.judge import diagnose
from monitor.latency import LatencyObservation, ObjectiveStatus, Source, judge
from tests.kafka_data import Record, make_topic, produce
from tests.mirrored import create_datastream
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair
from tests.situations import Snapshot, write

PARTITIONS: Final = 2
_INTERVAL_SECONDS: Final = 0.2
_ANSWER_SECONDS: Final = 5.0
"""Timeout of a request."""
OBJECTIVE_MS: Final = 5_000
_SMALL_BATCHES: Final = {"batch.size": 20_000}
"""Small batches, since a quota applies to whole batches."""

Shown = Callable[[Snapshot], bool]


class Scene:
    """Instances of one service, with a new datastream for each situation. The first one is queried."""

    def __init__(self, kafka: KafkaPair, *instances: RunningInstance) -> None:
        self.kafka = kafka
        self.instances = list(instances)
        self.name = ""
        self._events: list[str] = []
        self._since = 0.0
        self._rows: list[tuple[str, ...]] = []

    @property
    def instance(self) -> RunningInstance:
        """Queried instance."""
        return self.instances[0]

    def begin(self, **more: Any) -> None:
        """Create a topic with a record in each partition, and a datastream that copies it."""
        wait_until(
            lambda: len(self.instance.rest.get("/v1/instances")) == len(self.instances), "all have joined"
        )
        self.name = f"s-{uuid4().hex[:8]}"
        self._events = []
        make_topic(self.kafka.source.address, self.name, PARTITIONS, retention_ms="-1")
        self.write()
        selected = more.pop("topics", self.name)
        self._since = time.monotonic()
        create_datastream(
            self.instance, self.name, selected, objective={"milliseconds": OBJECTIVE_MS}, **more
        )

    def begin_copied(self, **more: Any) -> None:
        """Begin, wait until all records are copied, and mark the start of the situation."""
        self.begin(**more)
        self.wait_for_copy()
        self.mark()

    def mark(self) -> None:
        """Mark the start of the situation: only later events belong to it."""
        self._events = [one["event_key"] for one in self.instance.rest.get("/v1/events", limit=1000)]
        self._since = time.monotonic()

    def wait_for_copy(self) -> None:
        """Wait until all records are copied."""
        wait_until(self._is_copied, f"{self.name}: all copied", interval_seconds=_INTERVAL_SECONDS)

    def write(self, count: int = 1, size: int = 100) -> None:
        """Write `count` records of `size` bytes to each partition."""
        records = [
            Record(number, b"k", os.urandom(size), (), 1_700_000_000_000)
            for number in range(PARTITIONS)
            for _ in range(count)
        ]
        produce(self.kafka.source.address, self.name, records, **_SMALL_BATCHES)

    def look(self) -> Snapshot:
        """Return the current reports of all sources."""
        address = f"http://{self.instance.address}"
        with httpx.Client(base_url=address, timeout=60, verify=tls_context()) as client:
            health = client.get("/v1/health")
            answer = client.get("/v1/lanes", params={"instance": self.instance.name}).json()
            lanes = [one for one in answer["lanes"] if one["datastream"] == self.name]
            metrics = dict(_series(client.get("/metrics").text))
            body = health.json()
            parts = {name: one for name, one in body["parts"].items() if self._concerns(name)}
            mine = {
                series: value
                for series, value in metrics.items()
                if self.name in series
                or ("part=" in series and 'part="datastream' not in series)
                or series.startswith("headrace_loads{")
            }
        seconds = time.monotonic() - self._since
        with ThreadPoolExecutor() as pool:  # in parallel, so that timeouts do not add up
            events, definition = pool.submit(self._new_events), pool.submit(self._definition)
            standing = self._standing(lanes)
        said = events.result(), definition.result(), standing
        return Snapshot(health.status_code, parts, lanes, mine, *said, seconds)

    def rows(
        self,
        situations: Sequence[str],
        bring_about: Callable[[Scene, str, ExitStack], None],
        shown: Mapping[str, Shown],
    ) -> None:
        """Produce each situation and wait until it is shown. `bring_about` pushes its undo on the stack."""
        assert set(shown) == set(situations)
        for situation in situations:
            with ExitStack() as ending:
                bring_about(self, situation, ending)
                self.wait_for(situation, shown[situation])
            self._recover(situation)
        self.write_down()

    def write_down(self) -> None:
        """Write the observed rows to the page if WRITE_SITUATIONS=1."""
        if os.environ.get("WRITE_SITUATIONS"):
            write(self._rows)

    def wait_for(self, situation: str, is_shown: Shown) -> None:
        """Wait until the situation is shown, and add its row."""
        found: list[Snapshot] = []

        def look() -> bool:
            found[:] = [self.look()]
            return is_shown(found[0])

        try:
            wait_until(look, f"{situation} is shown", interval_seconds=_INTERVAL_SECONDS)
        except BaseException:
            print(f"{situation}: last snapshot: {found}")
            raise
        self._rows.append(found[0].row(situation))

    def _recover(self, situation: str) -> None:
        def is_gone() -> bool:
            with suppress(HeadraceError):
                self.instance.rest.delete(f"/v1/datastreams/{self.name}")
            try:
                names = [one["name"] for one in self.instance.rest.get("/v1/datastreams")]
            except HeadraceError:
                return False
            return self.name not in names

        wait_until(is_gone, f"{situation}: the datastream is gone", interval_seconds=0.5)
        wait_until(lambda: self.look().status == 200, f"{situation}: healthy again", interval_seconds=0.5)

    def _is_copied(self) -> bool:
        """Return whether the lanes of all instances report that everything is copied."""
        lanes = [
            lane
            for instance in self.instances
            for lane in instance.lanes()
            if lane["datastream"] == self.name
        ]
        return len(lanes) == PARTITIONS and all(
            lane["phase"] == "copying" and lane["lag_records"] == 0 for lane in lanes
        )

    def _concerns(self, part: str) -> bool:
        return self.name in part or not part.startswith(("datastream ", "lanes of "))

    def _new_events(self) -> list[str]:
        try:
            events = self._asked("/v1/events", limit=1000)
        except HeadraceError:
            return ["no answer"]
        return sorted(
            {
                one["kind"]
                for one in events
                if one["event_key"] not in self._events and one["datastream"] in (self.name, "")
            }
        )

    def _standing(self, lanes: Sequence[Mapping[str, Any]]) -> str:
        """Return the judgement of the monitor from these lanes, instead of Pinot's measurements."""
        with closing(RestClient(self.instance.address, _ANSWER_SECONDS)) as client:
            try:
                subject = RestService(client).subjects().get(DatastreamName(self.name))
            except HeadraceError:
                return "no answer"
        if subject is None:
            return "not judged"
        ages = [lane["lag_ms"] for lane in lanes if lane["worker"] is not None]
        known = [age for age in ages if age is not None]
        seen = LatencyObservation(0, (), max(known, default=0), len(ages) - len(known)) if ages else None
        verdict = judge(subject, seen)
        return f"{verdict.standing}; names the pause" if subject.paused else verdict.standing.value

    def _asked(self, path: str, **parameters: Any) -> Any:
        with closing(RestClient(self.instance.address, _ANSWER_SECONDS)) as client:
            return client.get(path, **parameters)

    def _definition(self) -> dict[str, Any]:
        """Return the definition, with `as_of_ms` if it is stale."""
        address = f"http://{self.instance.address}/v1/datastreams/{self.name}"
        try:
            answer = httpx.get(address, timeout=_ANSWER_SECONDS, verify=tls_context())
        except httpx.TransportError:
            return {"name": self.name}
        if not answer.is_success:
            return {"name": self.name}
        age = {"as_of_ms": answer.headers["As-Of-Ms"]} if "As-Of-Ms" in answer.headers else {}
        return {**answer.json(), **age}


def diagnosed(seen: Snapshot) -> Diagnosis:
    """Return the monitor's diagnosis of late records, from these lanes."""
    source = Source(str(seen.datastream["name"]), "source")
    lanes = {"lanes": seen.lanes, "instances": []}
    return diagnose(evidence_of(lanes, source, TopicSelection(".*")), OBJECTIVE_MS)


def lanes_are(seen: Snapshot, phase: str) -> bool:
    """Return whether every partition has a lane in this phase."""
    return len(seen.lanes) == PARTITIONS and all(lane["phase"] == phase for lane in seen.lanes)


def is_0_somewhere(seen: Snapshot) -> bool:
    """Return whether any lane or metric reports zero lag."""
    lanes = any(lane["lag_records"] == 0 or lane["lag_ms"] == 0 for lane in seen.lanes)
    return lanes or any(
        value == 0 for series, value in seen.metrics.items() if series.startswith("headrace_lag_")
    )


def is_held_back(seen: Snapshot, owner: QuotaOwner) -> bool:
    """Return whether lanes are healthy but throttled, and report whose quota limits them.

    While the brokers' read quota delays a lane's requests, its lag is unknown.
    """
    holds = [lane.get("held_back") or {"owner": ""} for lane in seen.lanes]
    return (
        seen.status == 200
        and lanes_are(seen, "copying")
        and not is_0_somewhere(seen)
        and all(hold["owner"] == owner for hold in holds)
        and "quota" in (seen.datastream.get("problem") or {"reason": ""})["reason"]
        and seen.metrics.get(f'headrace_held_back_lanes{{datastream="{seen.datastream["name"]}"}}')
        == PARTITIONS
        and seen.standing in {ObjectiveStatus.BREACHED, ObjectiveStatus.UNKNOWN}
    )


def stands_still(seen: Snapshot) -> bool:
    """Return whether lanes have paused themselves, and every report shows that copying has stopped."""
    return (
        seen.status == 503
        and lanes_are(seen, "paused")
        and not is_0_somewhere(seen)
        and all(lane["reason"] for lane in seen.lanes)
        and "problem" in seen.events
        and bool(seen.datastream.get("problem"))
        and seen.standing in {ObjectiveStatus.HALTED, ObjectiveStatus.BREACHED}
    )


def _series(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        if line and not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            yield series, float(value)
