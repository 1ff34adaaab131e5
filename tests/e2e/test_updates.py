"""Changes of a datastream under traffic: lanes that remain continue, others start or stop."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest
from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse
from typer.testing import CliRunner, Result

from headrace.__main__ import app
from headrace.commands.datastreams.apply import EXIT_DIFFERS
from headrace.console.client import RestClient
from mirror.errors import IllegalTransition, RefusedFields, StaleVersion, VersionConflict
from mirror.model.datastreams.lanes import QuotaOwner
from tests.contract.kafka.asking import BrokerClient
from tests.e2e.conftest import NewInstance
from tests.kafka_data import Record, make_topic, produce, read_all
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long]

PARTITIONS: Final = 2
PATH: Final = "/v1/datastreams/updated"
_NOW: Final = 1_700_000_000_000


class Traffic:
    """Writer of numbered records to every partition of some topics, in rounds, within a context."""

    def __init__(self, servers: str, topics: tuple[str, ...]) -> None:
        self._servers = servers
        self._topics = topics
        self._ending = threading.Event()
        self.rounds = 0

    @contextmanager
    def running(self) -> Iterator[Traffic]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield self
        finally:
            self._ending.set()
            thread.join()

    def _run(self) -> None:
        while not self._ending.wait(0.05):
            for topic in self._topics:
                value = b"%d" % self.rounds
                records = [Record(number, b"k", value, (), _NOW) for number in range(PARTITIONS)]
                produce(self._servers, topic, records)
            self.rounds += 1

    def await_rounds(self, more: int) -> None:
        wanted = self.rounds + more
        wait_until(lambda: self.rounds >= wanted, "more records are written")


class Updated:
    """Datastream of one of three topics, and queries of its lanes and copies."""

    def __init__(self, kafka: KafkaPair, instance: RunningInstance) -> None:
        self.kafka, self.rest = kafka, instance.rest
        self.topics = tuple(f"{name}-{uuid4().hex[:8]}" for name in ("stays", "comes", "goes"))
        for topic in self.topics:
            make_topic(kafka.source.address, topic, PARTITIONS)
        stays, _, goes = self.topics
        self.rest.post(
            "/v1/datastreams",
            {
                "name": "updated",
                "source": {"cluster": "source", "topics": f"{stays}|{goes}"},
                "destination": {"cluster": "destination", "name": "updated.*"},
                "metadata": {"owner": "tests"},
            },
        )

    def patch(self, changes: Mapping[str, Any], **parameters: Any) -> Any:
        return self.rest.patch(PATH, changes, self.rest.version(PATH), **parameters)

    def lanes(self) -> dict[str, dict[str, Any]]:
        return {one["partition"]: one for one in self.rest.get("/v1/lanes")["lanes"]}

    def copying(self) -> set[str]:
        return {name for name, one in self.lanes().items() if one["phase"] == "copying"}

    def partitions(self, *topics: str) -> set[str]:
        return {f"{topic}-{number}" for topic in topics for number in range(PARTITIONS)}

    def arrived(self, topic: str) -> dict[int, list[int]]:
        """Return the numbers at the destination, in order, by partition."""
        found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
        for record in read_all(self.kafka.destination.address, f"updated.{topic}"):
            assert record.value is not None
            found[record.partition].append(int(record.value))
        return found

    def has(self, topic: str, wanted: Mapping[int, list[int]]) -> bool:
        """Return whether exactly these numbers are at the destination."""
        return self.arrived(topic) == wanted

    def writers(self, topic: str) -> dict[int, set[tuple[int, int]]]:
        """Return the producer ids and epochs that have written a destination topic, by partition.

        A restarted lane takes the next epoch.
        """
        client = BrokerClient(self.kafka.destination.address)
        try:
            kind = DescribeProducersRequest.TopicRequest
            numbers = list(range(PARTITIONS))
            request = DescribeProducersRequest(
                topics=[kind(name=f"updated.{topic}", partition_indexes=numbers)]
            )
            answer: Any = client.ask(request, DescribeProducersResponse, 0).topics[0].partitions
        finally:
            client.close()
        assert not any(one.error_code for one in answer)
        return {
            one.partition_index: {(each.producer_id, each.producer_epoch) for each in one.active_producers}
            for one in answer
        }


@pytest.mark.deep
def test_lanes_that_stay_never_begin_again_and_nothing_is_lost_or_doubled(
    kafka_pair: KafkaPair, new_instance: NewInstance
) -> None:
    updated = Updated(kafka_pair, new_instance("one"))
    stays, comes, goes = updated.topics
    traffic = Traffic(kafka_pair.source.address, updated.topics)
    with traffic.running():
        wait_until(lambda: updated.copying() == updated.partitions(stays, goes), "both topics are copied")
        wait_until(lambda: all(updated.arrived(stays).values()), "their records arrive")
        writers = updated.writers(stays)
        assert all(len(one) == 1 for one in writers.values())

        change = {"source": {"topics": f"{stays}|{comes}"}, "metadata": {"owner": "others"}}
        plan = updated.patch(change, dry_run=True)
        found = {
            kind: {one["partition"] for one in plan[kind]}
            for kind in ("starts", "stops", "moves", "restarts")
        }
        assert found["starts"] == updated.partitions(comes)
        assert found["stops"] == updated.partitions(goes)
        assert not found["moves"]
        assert not found["restarts"]
        waiting = [one["backlog_records"] for one in plan["starts"]]
        at_most = traffic.rounds + 1  # the current round is not counted yet
        assert all(0 < one <= at_most for one in waiting), "the backlog is not one record of each round"
        assert plan["started_backlog_records"] == sum(waiting)
        assert updated.copying() == updated.partitions(stays, goes), "a dry run changed lanes"

        version = updated.rest.version(PATH)
        updated.patch(change)
        with pytest.raises(StaleVersion):
            updated.rest.patch(PATH, change, version)
        wait_until(
            lambda: updated.copying() == updated.partitions(stays, comes), "one topic replaces another"
        )
        traffic.await_rounds(5)

        updated.patch({"metadata": {"headrace.bytes-per-second": "100000"}})
        updated.patch({"metadata": {"headrace.bytes-per-second": "20"}})
        wait_until(
            lambda: any(
                (one.get("held_back") or {}).get("owner") == QuotaOwner.DATASTREAM
                for one in updated.lanes().values()
            ),
            "the quota holds lanes back",
        )
        with pytest.raises(RefusedFields, match=r"/destination/name.*; /start"):
            updated.patch({"destination": {"name": "else.*"}, "start": "latest"})
        updated.patch({"metadata": {"headrace.bytes-per-second": None}})
        wait_until(lambda: not any(one["reason"] for one in updated.lanes().values()), "no lane is held back")
        traffic.await_rounds(5)

        assert updated.writers(stays) == writers, "a lane was restarted"
        updated.patch({"source": {"topics": "|".join(updated.topics)}})
        wait_until(
            lambda: updated.copying() == updated.partitions(*updated.topics),
            "the third topic is copied again",
        )
        traffic.await_rounds(5)
    wanted = {number: list(range(traffic.rounds)) for number in range(PARTITIONS)}
    for topic in updated.topics:
        wait_until(partial(updated.has, topic, wanted), f"all of {topic} arrives once, in order")
    assert updated.writers(stays) == writers


@pytest.mark.deep
def test_of_writers_of_one_version_one_wins_and_a_creation_that_is_sent_again_is_one_datastream(
    kafka_pair: KafkaPair, new_instance: NewInstance
) -> None:
    instances = [new_instance(name) for name in ("one", "two")]
    updated = Updated(kafka_pair, instances[0])
    wait_until(lambda: updated.rest.get(PATH)["status"] == "READY", "the datastream is ready")
    for attempt in range(5):
        version = updated.rest.version(PATH)
        outcomes = _at_once(instances, attempt, version)
        assert sorted(outcomes.values()) == ["changed", *["refused"] * 5]
        (winner,) = [key for key, outcome in outcomes.items() if outcome == "changed"]
        metadata = updated.rest.get(PATH)["metadata"]
        assert {key for key in metadata if key.startswith(f"w{attempt}-")} == {winner}
        assert sum(key.startswith("w") for key in metadata) == attempt + 1, "an acknowledged change was lost"
    _check_pauses_of_a_group(instances)
    _check_actions_of_one_version(instances)
    _check_creations_of_one_key(*instances)


def _at_once(instances: list[RunningInstance], attempt: int, version: str) -> dict[str, str]:
    """Return the outcomes of six concurrent writers of one version, three at each instance."""
    outcomes: dict[str, str] = {}

    def write(number: int) -> None:
        key, client = f"w{attempt}-{number}", RestClient(instances[number % 2].address)
        try:
            client.patch(PATH, {"metadata": {key: "x"}}, version)
            outcomes[key] = "changed"
        except VersionConflict:
            outcomes[key] = "refused"
        finally:
            client.close()

    _all_at_once(write)
    return outcomes


def _check_pauses_of_a_group(instances: list[RunningInstance]) -> None:
    """Check four pauses of a group of two datastreams beside two changes of one of them.

    Two of the pauses name the version of both. One pause is carried out, for both; an acknowledged change is
    stored.
    """
    first, group, mate = instances[0].rest, "/v1/groups/updated", "/v1/datastreams/mate"
    first.post(
        "/v1/datastreams",
        {
            "name": "mate",
            "source": {"cluster": "source", "topics": "nothing"},
            "destination": {"cluster": "destination", "name": "updated.*"},
            "metadata": {"owner": "tests", "system.taskPrefix": "updated"},
        },
    )
    wait_until(lambda: first.get(mate)["status"] == "READY", "the other datastream is ready")
    for attempt in range(3):
        answers = _pauses_beside_changes(instances, attempt, (first.version(group), first.version(mate)))
        assert {one.status_code for one in answers.values()} <= {200, 409, 412}
        (done,) = [number for number in range(4) if answers[number].is_success]
        changed = [str(number) for number in (4, 5) if answers[number].is_success]
        for one in instances:
            wait_until(partial(_is_paused, one.rest, f"{attempt}-{done}"), "every instance shows the pause")
            metadata = one.rest.get(mate)["metadata"]
            assert [value for key, value in metadata.items() if key == f"m{attempt}"] == changed
        resumed = first.post(f"{group}/resume")["datastreams"]
        assert [one["status"] for one in resumed] == ["READY", "READY"]


def _pauses_beside_changes(
    instances: list[RunningInstance], attempt: int, versions: tuple[str, str]
) -> dict[int, httpx.Response]:
    """Send four pauses and two changes. `versions`: of the group, and of the changed datastream."""
    answers: dict[int, httpx.Response] = {}

    def act(number: int) -> None:
        address = f"http://{instances[number % 2].address}/v1"
        if number < 4:
            headers, body = {"If-Match": versions[0]} if number > 1 else {}, {"reason": f"{attempt}-{number}"}
            address = f"{address}/groups/updated/pause"
            answers[number] = httpx.post(address, json=body, headers=headers, timeout=30)
            return
        change, headers = {"metadata": {f"m{attempt}": str(number)}}, {"If-Match": versions[1]}
        answers[number] = httpx.patch(f"{address}/datastreams/mate", json=change, headers=headers, timeout=30)

    _all_at_once(act)
    return answers


def _is_paused(rest: RestClient, reason: str) -> bool:
    """Return whether both datastreams are paused for this reason."""
    found = rest.get("/v1/groups/updated")["datastreams"]
    return [(one["halt"] or {}).get("reason") for one in found] == [reason, reason]


def _check_actions_of_one_version(instances: list[RunningInstance]) -> None:
    """Check that of six actions on one version only one is carried out: pauses, and pauses of partitions."""
    addresses, before = [f"http://{one.address}" for one in instances], instances[0].rest.version(PATH)
    answers: dict[int, httpx.Response] = {}

    def act(number: int) -> None:
        action = ("pause", "pause-partitions")[number // 2 % 2]
        body = {"partitions": {"t": str(number)}} if action != "pause" else {}
        address = f"{addresses[number % 2]}{PATH}/{action}"
        answers[number] = httpx.post(address, json=body, headers={"If-Match": before}, timeout=30)

    _all_at_once(act)
    assert sorted(one.status_code for one in answers.values()) == [200, *[412] * 5]
    (done,) = [one for one in answers.values() if one.is_success]
    for one in instances:
        wait_until(lambda one=one: one.rest.version(PATH) == done.headers["ETag"], "every instance has it")  # type: ignore[misc]
        seen = one.rest.get(PATH)
        assert [seen[field] for field in ("status", "pauses")] == [
            done.json()[field] for field in ("status", "pauses")
        ]


def _all_at_once(call: Callable[[int], None]) -> None:
    """Make six concurrent calls, each with its number."""
    threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _check_creations_of_one_key(first: RunningInstance, second: RunningInstance) -> None:
    """Send six creations with one key at once, three to each instance, and more after killing the first."""
    addresses = [f"http://{one.address}/v1/datastreams" for one in (first, second)]
    body = {
        "name": "again",
        "source": {"cluster": "source", "topics": "nothing"},
        "destination": {"cluster": "destination", "name": "again.*"},
        "metadata": {"owner": "tests"},
    }
    answers: dict[int, httpx.Response] = {}

    def create(number: int, key: str = "one key", **more: str) -> None:
        headers = {"Idempotency-Key": f'"{key}"'}
        address = addresses[number % 2]
        answers[number] = httpx.post(address, json=body | more, headers=headers, timeout=30)

    _all_at_once(create)
    assert {one.status_code for one in answers.values()} == {201}
    (created_ms,) = {one.json()["metadata"]["system.creation.ms"] for one in answers.values()}
    first.kill()
    create(1)
    create(3, start="latest")
    create(5, key="another")
    assert [answers[number].status_code for number in (1, 3, 5)] == [201, 422, 409]
    assert answers[1].json()["metadata"]["system.creation.ms"] == created_ms
    assert [one["name"] for one in second.rest.get("/v1/datastreams")] == ["again", "mate", "updated"]
    assert second.rest.get("/v1/datastreams/again")["metadata"]["system.creation.ms"] == created_ms


@pytest.mark.deep
def test_a_pause_ends_by_itself_and_a_plan_is_applied_by_its_id_as_a_listener_hears(
    kafka_pair: KafkaPair, new_instance: NewInstance
) -> None:
    """Two instances: each carries out requests made to the other, and streams the events of both."""
    first, second = new_instance("one"), new_instance("two")
    updated = Updated(kafka_pair, first)
    everything = updated.partitions(updated.topics[0], updated.topics[2])
    wait_until(lambda: updated.copying() >= everything, "every partition is copied")
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "0-0"}
    url = f"http://{second.address}/v1/events"
    with httpx.stream("GET", url, headers=headers, timeout=PATIENCE_SECONDS) as stream:
        heard = (json.loads(one[6:]) for one in stream.iter_lines() if one.startswith("data: "))
        assert next(heard)["kind"] == "command"
        planned = next(heard)
        assert (planned["kind"], "4 partitions" in planned["sentence"]) == ("plan", True)
        second.rest.post(f"{PATH}/pause", {"for_seconds": 0.1, "reason": "tests"})
        assert next(one for one in heard if one["kind"] == "command" and "resumed" in one["sentence"])
        wait_until(lambda: updated.copying() >= everything, "every partition is copied again")
        plan = first.rest.post(f"{PATH}/plan", {"full": True})
        operation = second.rest.post(f"/v1/plans/{plan['id']}/apply", {"requested_by": "alice"})["operation"]
        with pytest.raises(IllegalTransition, match="alice"):
            first.rest.post(f"/v1/plans/{plan['id']}/apply")
        path = f"/v1/operations/{operation['id']}"

        def states() -> set[str]:
            return {instance.rest.get(path)["state"] for instance in (first, second)}

        wait_until(lambda: "queued" not in states(), "both instances have the outcome of the operation")
        assert states() == {"done"}


def test_the_command_line_leads_a_datastream_through_its_life(
    kafka_pair: KafkaPair, new_instance: NewInstance, tmp_path: Path
) -> None:
    instance, topic = new_instance("one"), f"life-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, PARTITIONS)
    records = [Record(number, b"k", b"v", (), _NOW) for number in range(PARTITIONS)]
    produce(kafka_pair.source.address, topic, records)

    def headrace(*words: str) -> Result:
        return CliRunner().invoke(app, [*words, "--at", instance.address])

    def done(*words: str) -> str:
        result = headrace(*words)
        assert result.exit_code == 0, result.output
        return result.stdout

    file = tmp_path / "life.yaml"
    file.write_text(f"name: life\nowner: tests\nsource: {{cluster: source, topics: {topic}}}\n")
    assert headrace("apply", "-f", str(file), "--check").exit_code == EXIT_DIFFERS
    assert "life: created" in done("apply", "-f", str(file), "--yes")
    done("datastream", "wait", "life", "--for", "caught-up", "--timeout", "10m")
    lag = json.loads(done("datastream", "lag", "life", "--json"))
    assert (lag["lag_records"], lag["unknown"], lag["is_complete"]) == (0, 0, True)
    assert {one["state"] for one in lag["partitions"]} == {"copying"}
    assert json.loads(done("datastream", "gaps", "life", "--json"))["partitions"] == []
    assert len(read_all(kafka_pair.destination.address, topic)) == PARTITIONS

    file.write_text(done("datastream", "get", "life", "-o", "yaml"))
    assert "1 unchanged" in done("apply", "-f", str(file), "--check")
    file.write_text(file.read_text().replace("max_tasks: null", "max_tasks: 2"))
    assert "/limits/max_tasks" in done("apply", "-f", str(file), "--yes")
    done("datastream", "stop", "life")
    done("datastream", "wait", "life", "--for", "stopped", "--timeout", "10m")
    file.write_text("name: other\nowner: tests\nsource: {cluster: source, topics: nothing}\n")
    assert "life: deleted" in done("apply", "-f", str(file), "--prune", "--owner", "tests", "--yes")
    done("datastream", "wait", "life", "--for", "deleted", "--timeout", "10m")
    assert [one["name"] for one in json.loads(done("datastream", "list", "--json"))] == ["other"]
