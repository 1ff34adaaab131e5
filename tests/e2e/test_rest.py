"""Every endpoint on real servers: all of /v1, and the calls of docs/brooklin-compatibility.md.

At the end the requests made are compared with the OpenAPI document, and with the routes of Brooklin's
interface, which the document omits, so that untested endpoints are found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest
from confluent_kafka import OFFSET_INVALID
from fastapi.routing import APIRoute

from api.brooklin import diagnostics, endpoints
from headrace.process.machine_code import found as compiled_rooms
from mirror.adapters.kafka_store.session import KafkaSession
from mirror.coordination.datastream_records.loss_store import LostStore
from mirror.model.datastreams.datastream import DatastreamStatus
from tests.brooklin_exchanges import PROTOCOLS, STORIES, Replay, exchanges
from tests.builders import a_datastream
from tests.e2e.conftest import NewInstance
from tests.kafka_data import Record, commit_positions, group_positions, make_topic, produce, read_all
from tests.patience import PATIENCE_SECONDS, eventually, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long]

PARTITIONS: Final = 4
VERSION: Final = "X-RestLi-Protocol-Version"
JAVA: Final = {VERSION: "2.0.0", "X-LI-R2-W-MsgType": "REST"}
"""Headers that Brooklin's Java client sends with each request."""

BROOKLINS: Final = {
    (method, route.path.replace(":path", ""))
    for router in (endpoints.router, diagnostics.router)
    for route in router.routes
    if isinstance(route, APIRoute)
    for method in route.methods or ()
}

OF_PINOT: Final = {("GET", f"/v1/datastreams/{{name}}/{what}/history") for what in ("latency", "loads")}
"""Endpoints that fail here, since no Pinot keeps a history."""


class CheckedClient:
    """Client that records the operations of an interface that responded as expected."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        document = client.get("/v1/openapi.json").json()
        self.operations = {
            (method.upper(), path) for path, methods in document["paths"].items() for method in methods
        } | BROOKLINS
        self.answered: set[tuple[str, str]] = set()

    def ask(self, method: str, path: str, status: int = 200, **arguments: Any) -> httpx.Response:
        if method == "POST" and path.startswith("/v1/"):
            arguments.setdefault("json", {})
        answer = self.client.request(method, path, **arguments)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        if answer.is_success:
            self.answered.add((method, self._template(method, path.partition("?")[0])))
        return answer

    def unanswered(self, *, of_brooklins: bool = False) -> set[tuple[str, str]]:
        """Return the operations of Brooklin's interface, or of /v1, that were not tested."""
        wanted = BROOKLINS if of_brooklins else self.operations - BROOKLINS
        assert wanted
        return wanted - self.answered

    def _template(self, method: str, path: str) -> str:
        """Return the matching path of the document, the one with the fewest variables."""
        fitting = [
            template
            for asked, template in self.operations
            if asked == method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path)
        ]
        return min(fitting, key=lambda template: template.count("{"), default=path)


@contextmanager
def asking(instance: RunningInstance, headers: Mapping[str, str] | None = None) -> Iterator[CheckedClient]:
    with httpx.Client(
        base_url=f"http://{instance.address}", timeout=PATIENCE_SECONDS, headers=headers
    ) as client:
        yield CheckedClient(client)


class World:
    """Two instances, a topic at the source, and its copy."""

    def __init__(self, kafka_pair: KafkaPair, new_instance: NewInstance) -> None:
        self._kafka = kafka_pair
        self.topic = f"rest-{uuid4().hex[:8]}"
        make_topic(kafka_pair.source.address, self.topic, PARTITIONS, retention_ms="-1")
        self.instances = {name: new_instance(name) for name in ("one", "two")}
        eventually(
            lambda: len(self.instances["one"].rest.get("/v1/instances")) == 2, "both instances have joined"
        )
        self._written = self._repeated = 0

    def write(self) -> None:
        """Write one more record to every partition."""
        self._written += 1
        value = b"%d" % self._written
        records = [Record(number, b"k", value, (), 1_700_000_000_000) for number in range(PARTITIONS)]
        produce(self._kafka.source.address, self.topic, records)

    def await_all_but(self, *paused: int) -> None:
        """Wait until every record is at the destination, except the last one of each paused partition."""
        present = self._written + self._repeated
        wanted = {number: present - (number in paused) for number in range(PARTITIONS)}
        wait_until(lambda: self._arrived() == wanted, f"{wanted} arrive", interval_seconds=0.2)

    def await_all_again(self) -> None:
        """Wait until every record written so far is at the destination once more."""
        self._repeated += self._written
        self.await_all_but()

    def lanes(self) -> list[dict[str, Any]]:
        """Return the lanes of both instances, as listed over REST."""
        return [lane for one in self.instances.values() for lane in one.lanes()]

    def running(self) -> list[dict[str, Any]]:
        """Return the lanes that have a worker."""
        return [lane for lane in self.lanes() if lane["worker"] is not None]

    def paused(self) -> dict[str, dict[str, Any]]:
        """Return the partitions paused by an operator, as listed by the leader."""
        return {lane["partition"]: lane for lane in self.lanes() if lane["by"] == "person"}

    def copying(self) -> set[str]:
        """Return the partitions that any instance copies."""
        return {lane["partition"] for lane in self.lanes() if lane["phase"] == "copying"}

    def partitions(self, *left_out: int) -> set[str]:
        """Return the names of all partitions except those."""
        return {f"{self.topic}-{number}" for number in range(PARTITIONS) if number not in left_out}

    def home_of(self, number: int) -> str:
        """Return the instance that has a partition in the current plan."""
        return self._homes()[f"{self.topic}-{number}"]

    def await_plan(self) -> None:
        """Wait until all partitions are copied, each by the instance of the current plan alone."""
        wait_until(
            lambda: self._copiers() == sorted(self._homes().items()), "all partitions are copied as planned"
        )

    def _homes(self) -> dict[str, str]:
        tasks = self.instances["one"].rest.get("/v1/plan")["tasks"]
        homes = [(name, str(task["instance"])) for task in tasks for name in task["partitions"]]
        assert sorted(name for name, _ in homes) == sorted(self.partitions())
        return dict(homes)

    def _copiers(self) -> list[tuple[str, str]]:
        return sorted(
            (lane["partition"], name)
            for name, instance in self.instances.items()
            for lane in instance.lanes()
            if lane["phase"] == "copying"
        )

    def _arrived(self) -> dict[int, int]:
        counted = dict.fromkeys(range(PARTITIONS), 0)
        for record in read_all(self._kafka.destination.address, f"copy.{self.topic}"):
            counted[record.partition] += 1
        return counted


def test_every_endpoint_of_v1(
    kafka_pair: KafkaPair, new_instance: NewInstance, session: KafkaSession
) -> None:
    world = World(kafka_pair, new_instance)
    with asking(world.instances["one"]) as asked:
        _create_and_read(asked, world)
        _change(asked)
        _pause_and_resume_partitions(asked, world)
        _move_and_rebalance(asked, world)
        _have_a_plan_applied(asked)
        _look_at_the_instance(asked, world)
        _restore_and_forget(asked, session)
        _translate(asked, world, kafka_pair)
        _restart_from_the_start(asked, world)
        _retire_and_restore(asked, kafka_pair)
        _through_the_states(asked, world)
        assert asked.unanswered() == OF_PINOT


def _retire_and_restore(asked: CheckedClient, kafka_pair: KafkaPair) -> None:
    topic = f"idle-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, 1)
    found = asked.ask("GET", "/v1/topics?cluster=source&days=0").json()["topics"]
    assert topic in {one["topic"] for one in found}
    body = {"cluster": "source", "topic": topic}
    asked.ask("POST", "/v1/retirements", 409, json=body)  # too young
    step = body | {"days": 0, "execute": True}
    wait_until(  # groups of other tests may be rebalancing
        lambda: asked.client.post("/v1/retirements", json=step).is_success, "the topic is sealed"
    )
    assert asked.ask("POST", "/v1/retirements", json=step).json()["retirement"]["phase"] == "sealed"
    assert [one["topic"] for one in asked.ask("GET", "/v1/retirements").json()] == [topic]
    asked.ask("POST", "/v1/retirements/restore", json=body)
    asked.ask("POST", "/v1/retirements/restore", 404, json=body)


def _create_and_read(asked: CheckedClient, world: World) -> None:
    world.write()
    body = {
        "name": "rest",
        "source": {"cluster": "source", "topics": world.topic},
        "destination": {"cluster": "destination", "name": "copy.*"},
        "limits": {"min_tasks": 2},
        "metadata": {"owner": "tests"},
    }
    created = asked.ask("POST", "/v1/datastreams", 201, json=body)
    assert created.headers["Location"] == "/v1/datastreams/rest"
    asked.ask("POST", "/v1/datastreams", 409, json=body)
    asked.ask("POST", "/v1/datastreams", 400, json=body | {"no_such_field": 1})
    wait_until(lambda: asked.ask("GET", "/v1/datastreams/rest").json()["status"] == "READY", "ready")
    assert [one["name"] for one in asked.ask("GET", "/v1/datastreams").json()] == ["rest"]
    asked.ask("GET", "/v1/datastreams/no-such", 404)
    wait_until(lambda: world.copying() == world.partitions(), "every partition is copied")
    world.await_all_but()
    wait_until(
        lambda: (
            [
                lane["offsets"]["mirrored"]
                for lane in asked.ask("GET", "/v1/datastreams/rest/progress?offset_map=true").json()
            ]
            == [1] * PARTITIONS
        ),
        "every record is in the stored progress",
        interval_seconds=0.3,
    )


def _change(asked: CheckedClient) -> None:
    path, read = "/v1/datastreams/rest", asked.ask("GET", "/v1/datastreams/rest")
    at_first = {"If-Match": read.headers["ETag"]}
    wish = {"objective": {"milliseconds": 60_000}, "metadata": {"note": "n"}}
    asked.ask("PATCH", path, 428, json=wish)
    changed = asked.ask("PATCH", path, json=wish, headers=at_first)
    assert (changed.json()["objective"]["milliseconds"], changed.json()["status"]) == (60_000, "READY")
    asked.ask("PATCH", path, 412, json=wish, headers=at_first)
    now = {"If-Match": changed.headers["ETag"]}
    refused = asked.ask("PUT", path, 422, json=changed.json() | {"start": "latest", "name": "x"}, headers=now)
    assert {one["pointer"] for one in refused.json()["errors"]} == {"/start", "/name"}
    asked.ask("PUT", path, json=changed.json() | {"objective": None}, headers=now)
    assert asked.ask("GET", path).json()["objective"] is None


def _pause_and_resume_partitions(asked: CheckedClient, world: World) -> None:
    partitions = {"partitions": {world.topic: "0"}}
    answer = asked.ask("POST", "/v1/datastreams/rest/pause-partitions", json=partitions | {"reason": "why"})
    assert answer.json()["pauses"][world.topic]["reason"] == "why"
    assert answer.json()["pauses"][world.topic]["partitions"] == [0]
    wait_until(lambda: world.copying() == world.partitions(0), "the lane of the paused partition ends")
    world.write()
    world.await_all_but(0)
    # Before its last checkpoint was committed, one record was also behind.
    wait_until(lambda: _standing(world, 0) == (1, 1), "the lag of the paused partition is shown")
    partition = f"{world.topic}-0"
    wait_until(
        lambda: world.paused()[partition]["lag_ms"] is not None, "the age of the waiting record is known"
    )
    paused = world.paused()[partition]
    assert paused["reason"] == "why"
    assert paused["lag_ms"] >= 0
    movement = paused["movement"]
    assert (movement["state"], movement["reason"]) == ("PAUSED_BY_USER", "why")
    answer = asked.ask("POST", "/v1/datastreams/rest/resume-partitions", json=partitions)
    assert answer.json()["pauses"] == {}
    world.await_all_but()


def _standing(world: World, number: int) -> tuple[int | None, int | None]:
    """Return the lag of a paused partition in records, and the retained records before its checkpoint."""
    lane = world.paused().get(f"{world.topic}-{number}")
    return (None, None) if lane is None else (lane["lag_records"], lane["retained_records"])


def _have_a_plan_applied(asked: CheckedClient) -> None:
    made = asked.ask("POST", "/v1/datastreams/rest/plan", 201, json={"full": True}).json()
    path = f"/v1/plans/{made['id']}"
    assert asked.ask("GET", path).json()["asked_by"] is None
    applied = asked.ask("POST", f"{path}/apply", 202, json={"requested_by": "a test"}).json()["operation"]
    operation = f"/v1/operations/{applied['id']}"
    wait_until(lambda: asked.ask("GET", operation).json()["state"] == "done", "the operation is done")
    assert applied["id"] in {one["id"] for one in asked.ask("GET", "/v1/operations").json()}
    assert asked.ask("GET", path).json()["asked_by"] == "a test"
    asked.ask("POST", f"{path}/apply", 409)


def _restart_from_the_start(asked: CheckedClient, world: World) -> None:
    path, wish = "/v1/datastreams/rest/restart-from", {"start": "earliest"}
    asked.ask("POST", path, 409, json=wish)
    allowed = {**wish, "allow_duplicates": True}
    planned = asked.ask("POST", f"{path}?dry_run=true", json=allowed).json()["restarts"]
    assert {one["partition"] for one in planned} == world.partitions()
    asked.ask("POST", path, json=allowed)
    world.await_all_again()
    wait_until(
        lambda: all(lane["is_balanced"] for lane in asked.ask("GET", "/v1/datastreams/rest/progress").json()),
        "every ledger is balanced",
    )


def _move_and_rebalance(asked: CheckedClient, world: World) -> None:
    present = world.home_of(1)
    (other,) = set(world.instances) - {present}
    body = {"partitions": [f"{world.topic}-1"], "instance": other}
    assert asked.ask("POST", "/v1/datastreams/rest/move", 202, json=body).json()["request"]
    asked.ask("POST", "/v1/datastreams/rest/move", 400, json=body | {"instance": "nobody"})
    wait_until(lambda: world.home_of(1) == other, "the partition is planned at the other instance")
    world.await_plan()
    epoch = asked.ask("GET", "/v1/plan").json()["epoch"]
    wish: dict[str, Any] = {"datastream": "rest", "full": True, "reason": "a test asks"}
    preview = asked.ask("POST", "/v1/rebalance", json=wish | {"dry_run": True}).json()
    assert preview["request"] == ""
    assert preview["sentence"]
    assert asked.ask("GET", "/v1/plan").json()["epoch"] == epoch, "a dry run changed the plan"
    request = asked.ask("POST", "/v1/rebalance", 202, json=wish).json()["request"]
    assert request
    wait_until(lambda: asked.ask("GET", "/v1/plan").json()["epoch"] > epoch, "a plan answers the request")
    assert "a test asks" in asked.ask("GET", "/v1/plan").json()["reason"]
    events = asked.ask("GET", "/v1/events?limit=100").json()
    assert any(event["kind"] == "move" and event["to_instance"] == other for event in events)
    asked.ask("POST", "/v1/rebalance", 404, json=wish | {"datastream": "no-such"})
    asked.ask("POST", "/v1/rebalance", 409, json=wish | {"lease": "of no monitor"})
    asked.ask("PATCH", "/v1/monitor", json={"acting": False, "reason": "a test asks"})
    assert asked.ask("GET", "/v1/monitor").json()["acting"]["reason"] == "a test asks"
    asked.ask("PUT", "/v1/monitor/lease", json={"holder": "a test"})
    asked.ask("DELETE", "/v1/monitor/lease?holder=a%20test")


def _look_at_the_instance(asked: CheckedClient, world: World) -> None:
    world.await_plan()
    instances = asked.ask("GET", "/v1/instances").json()
    names = [one["name"] for one in instances]
    assert sorted(names) == ["one", "two"]
    assert [(one["state"], one["health"]["instance"]) for one in instances] == [
        ("answered", name) for name in names
    ]
    asked.ask("GET", "/v1/movement")
    assert {one["datastream"] for one in asked.ask("GET", "/v1/audits").json()["topics"]} == {"rest"}
    assert asked.ask("GET", "/v1/dr").json() == []
    (glance,) = asked.ask("GET", "/v1/overview").json()["datastreams"]
    assert (glance["name"], glance["partitions"], glance["not_copied"]) == ("rest", PARTITIONS, 0)
    asked.ask("GET", "/v1/overview?datastream=no-such", 404)
    assert asked.ask("GET", "/v1/caller").json()["refusal"] == ""
    everything = asked.ask("GET", "/v1/lanes").json()
    assert {one["name"]: one["state"] for one in everything["instances"]} == dict.fromkeys(names, "answered")
    assert {lane["partition"] for lane in everything["lanes"]} == world.partitions()
    assert {lane["instance"] for lane in everything["lanes"]} == {"one", "two"}
    behind = asked.ask("GET", "/v1/datastreams/rest/lag").json()
    assert (behind["silent_instances"], len(behind["partitions"])) == ([], PARTITIONS)
    assert asked.ask("GET", "/v1/datastreams/rest/gaps").json()["name"] == "rest"
    _look_at_the_loads(asked, names[0])
    incidents = asked.ask("GET", "/v1/incidents").json()
    assert asked.ask("GET", "/v1/usage").json()["measured_by"] == "topic"
    assert "rest" not in {one["datastream"] for one in incidents}  # other tests of the session have their own
    health = asked.ask("GET", "/v1/health").json()
    assert health["instance"] == "one"
    assert health["is_well"] is True
    assert asked.ask("GET", "/v1/ready").json()["is_ready"] is True
    assert health["is_leading"] == (names[0] == "one")
    assert health["data_plane"] == ("compiled" if compiled_rooms() else "interpreted")
    mine = {lane["partition"] for lane in asked.ask("GET", "/v1/lanes?instance=one").json()["lanes"]}
    assert not world.paused()
    assert mine == {name for name in world.partitions() if world.home_of(int(name[-1])) == "one"}
    page = asked.client.get("/metrics").text
    assert re.search(
        rf'^headrace_build_info{{data_plane="{health["data_plane"]}",.*}} 1.0$', page, re.MULTILINE
    )
    assert f'headrace_lanes{{datastream="rest",phase="copying"}} {float(len(mine))}' in page
    assert "Headrace" in asked.client.get("/v1/docs").text


def _look_at_the_loads(asked: CheckedClient, leader: str) -> None:
    """Check that the sums match the rows, since the measured rates of a few records depend on the moment."""
    found = asked.ask("GET", "/v1/datastreams/rest/loads").json()
    assert (found["cluster"], found["leader"], found["no_answer"]) == ("source", leader, "")
    rows = found["partitions"]
    assert sorted(one["partition"] for one in rows) == list(range(PARTITIONS))
    assert {one["instance"] for one in rows} == {"one", "two"}
    assert found["unknown"] == sum(one["bytes_per_second"] is None for one in rows)
    assert found["known"] + found["unknown"] == PARTITIONS
    asked.ask("GET", "/v1/datastreams/no-such/loads", 404)
    for what in ("loads", "latency"):  # stored in Pinot, which is missing here
        refused = asked.ask("GET", f"/v1/datastreams/rest/{what}/history", 503)
        assert refused.json()["kind"] == "HistoryUnavailable"
        asked.ask("GET", f"/v1/datastreams/no-such/{what}/history", 404)
    everything = asked.ask("GET", "/v1/loads").json()
    assert (everything["leader"], everything["no_answer"]) == (leader, "")
    (cluster,) = everything["clusters"]
    assert (cluster["cluster"], cluster["partitions"]) == ("source", PARTITIONS)
    assert cluster["known"] + cluster["unknown"] == PARTITIONS
    advice = asked.ask("GET", "/v1/advice").json()
    assert advice["why"] or advice["computed_ms"] is not None, "missing advice without a reason"


def _restore_and_forget(asked: CheckedClient, session: KafkaSession) -> None:
    """Restore one lost definition and delete another, as if the store had lost both."""
    paths = {name: f"/v1/lost-datastreams/{name}" for name in ("restored", "forgotten")}
    LostStore(session).publish([a_datastream(name, status=DatastreamStatus.PAUSED) for name in paths])
    wait_until(
        lambda: [one["name"] for one in asked.ask("GET", "/v1/lost-datastreams").json()] == sorted(paths),
        "the instance has read both from the store",
    )
    tag = {"If-Match": asked.ask("GET", paths["restored"]).headers["ETag"]}
    restored = asked.ask("POST", f"{paths['restored']}/restore", headers=tag).json()
    assert restored["status"] == "PAUSED"
    asked.ask("DELETE", paths["forgotten"])
    asked.ask("GET", paths["forgotten"], 404)
    assert asked.ask("GET", "/v1/lost-datastreams").json() == []
    asked.ask("DELETE", "/v1/datastreams/restored", 202)
    wait_until(
        lambda: asked.client.get("/v1/datastreams/restored").status_code == 404, "the datastream is deleted"
    )


def _translate(asked: CheckedClient, world: World, kafka_pair: KafkaPair) -> None:
    path, copy, group = "/v1/datastreams/rest/translation", f"copy.{world.topic}", f"{world.topic}/eu"
    place: dict[str, Any] = {"topic": world.topic, "partition": 0, "offset": 0}
    there = asked.ask("GET", path, params=place).json()
    assert (there["to_topic"], there["to_offset"], there["precision"]) == (copy, 0, "exact")
    back = asked.ask("GET", path, params=place | {"topic": copy, "direction": "to-source"}).json()
    assert (back["to_topic"], back["to_offset"], back["precision"]) == (world.topic, 0, "exact")
    asked.ask("GET", path, 404, params=place | {"partition": PARTITIONS})
    asked.ask("GET", path, 400, params=place | {"offset": -1})
    commit_positions(kafka_pair.source.address, group, {(world.topic, 0): 1})
    groups = f"{path}/groups/{quote(group, safe='')}"
    found = asked.ask("GET", groups).json()
    followed = f"{path.removesuffix('translation')}consumer-groups"
    assert asked.ask("GET", followed).json()["groups"] == []
    explained = asked.ask("GET", f"{followed}/{quote(group, safe='')}").json()
    assert explained["reasons"] == ["excluded"]
    (one,) = found["positions"]
    assert (one["to_topic"], one["to_offset"], one["present"], one["left_alone"]) == (copy, 1, None, "")
    assert (found["group"], found["untranslated"]) == (group, [])
    assert group_positions(kafka_pair.destination.address, group, copy, 1) == [OFFSET_INVALID]
    asked.ask("GET", groups, 404, params={"direction": "to-source"})


def _through_the_states(asked: CheckedClient, world: World) -> None:
    def status() -> str:
        return str(asked.ask("GET", "/v1/datastreams/rest").json()["status"])

    why = {"reason": "ticket 7", "requested_by": "alice"}
    paused = asked.ask("POST", "/v1/datastreams/rest/pause", json=why).json()
    assert (paused["status"], paused["halt"]["requested_by"]) == ("PAUSED", "alice")
    wait_until(lambda: world.running() == [], "a paused datastream has no running lanes")
    world.write()
    assert asked.ask("POST", "/v1/datastreams/rest/resume").json()["status"] == "READY"
    world.await_all_but()
    _pause_the_group(asked)
    assert asked.ask("POST", "/v1/datastreams/rest/stop").json()["status"] == "STOPPING"
    wait_until(lambda: status() == "STOPPED", "stopped when its lanes are released")
    assert world.running() == []
    asked.ask("POST", "/v1/datastreams/rest/pause", 409)
    world.write()
    asked.ask("POST", "/v1/datastreams/rest/resume")
    world.await_all_but()
    asked.ask("DELETE", "/v1/datastreams/rest", 202)
    wait_until(lambda: asked.client.get("/v1/datastreams/rest").status_code == 404, "deleted")
    assert asked.ask("GET", "/v1/datastreams").json() == []
    wait_until(lambda: world.lanes() == [], "no lanes remain")
    world.await_all_but()  # the copied records remain


def _pause_the_group(asked: CheckedClient) -> None:
    group = "/v1/groups/rest"
    version = {"If-Match": asked.ask("GET", group).headers["ETag"]}
    paused = asked.ask("POST", f"{group}/pause", json={"reason": "ticket 8"}, headers=version).json()
    assert [one["status"] for one in paused["datastreams"]] == ["PAUSED"]
    asked.ask("POST", f"{group}/resume", 412, headers=version)
    resumed = asked.ask("POST", f"{group}/resume").json()
    assert [one["status"] for one in resumed["datastreams"]] == ["READY"]


def test_what_is_promised_of_brooklins_interface(kafka_pair: KafkaPair, new_instance: NewInstance) -> None:
    world = World(kafka_pair, new_instance)
    with asking(world.instances["one"], JAVA) as asked:
        _create_as_brooklins_client(asked, world, kafka_pair)
        _update_as_brooklins_client(asked)
        _pause_source_partitions(asked, world)
        _move_partitions(asked, world)
        _ask_for_health(asked, world)
        _ask_for_diagnostics(asked, world)
        _stop_and_delete(asked, world)
        assert asked.unanswered(of_brooklins=True) == set()


def act(asked: CheckedClient, action: str, status: int = 200, body: object = None) -> httpx.Response:
    headers = {"X-RestLi-Method": "action"}
    answer = asked.ask("POST", f"/datastream/m1?action={action}", status, json=body, headers=headers)
    if answer.is_success:
        assert (answer.content, answer.headers[VERSION]) == (b"", "2.0.0")
    return answer


def status_of(asked: CheckedClient) -> str:
    return str(asked.ask("GET", "/datastream/m1").json()["Status"])


def _create_as_brooklins_client(asked: CheckedClient, world: World, kafka_pair: KafkaPair) -> None:
    world.write()
    document = {
        "name": "m1",
        "connectorName": "kafkaMirroringConnector",
        "transportProviderName": "kafkaTransportProvider",
        "source": {"connectionString": f"kafka://{kafka_pair.source.address}/^{world.topic}$"},
        "metadata": {
            "owner": "tests",
            "system.destination.destinationTopicPrefix": "copy.",
            "system.reuseExistingDestination": "false",
            "datastreamUUID": str(uuid4()),
            "minTasks": "2",
        },
    }
    create = {"X-RestLi-Method": "create"}
    answer = asked.ask("POST", "/datastream", 201, json=document, headers=create)
    assert (answer.content, answer.headers["X-RestLi-Id"]) == (b"", "m1")
    assert answer.headers["Location"] == "/datastream/m1"
    again = asked.ask("POST", "/datastream", 201, json=document, headers=create)
    assert again.headers["X-RestLi-Id"] == "m1"
    wait_until(lambda: status_of(asked) == "READY", "ready")
    stored = asked.ask("GET", "/datastream/m1").json()
    assert stored["connectorName"] == "kafkaMirroringConnector"
    assert stored["source"]["connectionString"] == document["source"]["connectionString"]  # type: ignore[index]
    assert set(document["metadata"]) <= set(stored["metadata"])
    every = asked.ask("GET", "/datastream").json()
    assert [one["name"] for one in every["elements"]] == ["m1"]
    assert asked.ask("GET", "/datastream?count=1&start=1").json()["elements"] == []
    asked.ask("GET", "/datastream/no-such", 404)
    world.await_all_but()


def _update_as_brooklins_client(asked: CheckedClient) -> None:
    document = asked.ask("GET", "/datastream/m1").json()
    document["metadata"]["owner"] = "others"
    answer = asked.ask("PUT", "/datastream?ids=List(m1)", json={"entities": {"m1": document}})
    assert answer.json() == {"results": {"m1": {"status": 200}}, "errors": {}}
    assert asked.ask("GET", "/datastream/m1").json() == document
    asked.ask("PUT", "/datastream/m1", 400, json={**document, "Status": "PAUSED"})
    document["metadata"]["note"] = "n"
    assert asked.ask("PUT", "/datastream/m1", json=document).content == b""
    assert asked.ask("GET", "/datastream/m1").json() == document


def _pause_source_partitions(asked: CheckedClient, world: World) -> None:
    act(asked, "pauseSourcePartitions", body={"sourcePartitions": {world.topic: "0,2"}})
    wait_until(lambda: world.copying() == world.partitions(0, 2), "two partitions are paused")
    world.write()
    world.await_all_but(0, 2)
    act(asked, "resumeSourcePartitions", body={"sourcePartitions": {world.topic: "0,2"}})
    world.await_all_but()


def _move_partitions(asked: CheckedClient, world: World) -> None:
    (other,) = set(world.instances) - {world.home_of(3)}
    act(asked, "movePartitions", body={"partitions": f"{world.topic}-3", "targetHost": other})
    wait_until(lambda: world.home_of(3) == other, "the partition is planned at the other instance")
    world.await_plan()


def _ask_for_health(asked: CheckedClient, world: World) -> None:
    answer = asked.ask("GET", "/health").json()
    assert answer["instanceName"] == "one"
    (connector,) = answer["connectors"]
    partitions = ", ".join(task["partitions"].strip("[]") for task in connector["tasks"]).split(", ")
    assert set(partitions) == {name for name in world.partitions() if world.home_of(int(name[-1])) == "one"}
    assert {task["datastreams"] for task in connector["tasks"]} == {"m1"}


def _stop_and_delete(asked: CheckedClient, world: World) -> None:
    act(asked, "pause", body={"force": True})
    assert status_of(asked) == "PAUSED"
    wait_until(lambda: world.running() == [], "a paused datastream has no running lanes")
    world.write()
    act(asked, "resume")
    world.await_all_but()
    act(asked, "resume", 405, {"force": False})
    act(asked, "stop", body={"force": False})
    assert status_of(asked) == "STOPPED"
    assert world.running() == []
    asked.ask("DELETE", "/datastream/m1")
    wait_until(lambda: asked.client.get("/datastream/m1").status_code == 404, "deleted")


def _ask_for_diagnostics(asked: CheckedClient, world: World) -> None:
    mine = sorted(name for name in world.partitions() if world.home_of(int(name[-1])) == "one")
    state = _diagnosed(asked, "/datastream_state?datastream%3Dm1")
    assert state["assignedTopicPartitions"] == mine
    (held,) = _diagnosed(asked, "/partitions")
    assert held["topicPartitions"] == {world.topic: [int(name[-1]) for name in mine]}
    wait_until(
        lambda: (
            set(_diagnosed(asked, "/consumer_offsets")[0]["committedOffsets"].get(world.topic, ()))
            == {name[-1] for name in mine}
        ),
        "the progress of every partition of this instance is stored",
        interval_seconds=0.3,
    )


def _diagnosed(asked: CheckedClient, content: str) -> Any:
    query = f"content={content}&q=status&scope=kafkaMirroringConnector&type=connector"
    (element,) = asked.ask("GET", f"/diag?{query}").json()["elements"]
    assert element["succeeded"], element
    return json.loads(element["status"])


def test_every_recorded_exchange_of_brooklins_client(
    kafka_pair: KafkaPair, new_instance: NewInstance
) -> None:
    suffix = uuid4().hex[:8]
    for topic in ("orders.a", "orders.b", "payments.a"):
        make_topic(kafka_pair.source.address, topic.replace(".", f"-{suffix}."), PARTITIONS)
    names = {one: f"{one}-{suffix}" for one in ("orders", "payments")}
    names["source.example.org:9092"] = kafka_pair.source.address
    names["destination.example.org:9092"] = kafka_pair.destination.address
    with httpx.Client(base_url=f"http://{new_instance('one').address}", timeout=PATIENCE_SECONDS) as client:
        for protocol in PROTOCOLS:
            replay = Replay(client, "one", wait_until)
            for story in STORIES:
                for exchange in exchanges(story, protocol, names):
                    replay.ask(exchange)
            wait_until(
                lambda: client.get("/datastream").json()["elements"] == [], "all datastreams are deleted"
            )
