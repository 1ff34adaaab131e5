"""Test repeated creations on /v1."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from httpx import Client, Response

from mirror.model.datastreams.datastream import DatastreamStatus
from mirror.model.topics import TopicDescription
from tests.fakes.node_store import Fault, Operation
from tests.fakes.site import Site, a_body, settle, two_sites

PATH: Final = "/v1/datastreams"
OTHER: Final = {"cluster": "source", "topics": "other"}
KEY: Final = '"8e03978e-40d5-43dd"'


def create(client: Client, body: dict[str, Any], *keys: str | bytes) -> Response:
    headers = [(b"Idempotency-Key", one if isinstance(one, bytes) else one.encode()) for one in keys]
    return client.post(PATH, json=body, headers=headers)


def test_a_creation_that_is_sent_again_is_one_datastream(site: Site) -> None:
    first = create(site.client, a_body(), KEY)
    again = create(site.client, a_body(start="earliest", metadata={"owner": "tests"}), KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert (again.headers["ETag"], again.headers["Location"]) == (
        first.headers["ETag"],
        first.headers["Location"],
    )
    assert [one["name"] for one in site.client.get(PATH).json()] == ["orders"]


def test_it_is_known_at_every_instance_and_after_each_change(site: Site) -> None:
    create(site.client, a_body(), KEY)
    site.tick()
    site.client.patch(f"{PATH}/orders", json={"metadata": {"note": "n"}}, headers={"If-Match": "*"})
    site.client.post(f"{PATH}/orders/pause", json={})
    other = Site(site.server, "two")
    again = create(other.client, a_body(), KEY)
    assert (again.status_code, again.json()["status"]) == (201, "PAUSED")
    assert again.json()["metadata"]["note"] == "n"
    present = other.client.get(f"{PATH}/orders")
    assert (again.json(), again.headers["ETag"]) == (present.json(), present.headers["ETag"])
    assert site.stored("orders").status is DatastreamStatus.PAUSED


def test_a_creation_whose_answer_was_lost_is_found(site: Site) -> None:
    def lose(operation: Operation) -> Fault | None:
        is_it = operation.name == "change_together" and operation.path == "/datastreams/orders"
        return Fault(after_effect=True) if is_it else None

    site.session.script = lose
    assert create(site.client, a_body(), KEY).status_code == 503
    assert create(site.client, a_body()).status_code == 409
    assert create(site.client, a_body(), KEY).status_code == 201
    assert [one["name"] for one in site.client.get(PATH).json()] == ["orders"]
    assert len(command_sentences(site)) == 1, "the event is stored with the datastream"


def command_sentences(site: Site) -> list[str]:
    return [one["sentence"] for one in site.client.get("/v1/events").json() if one["kind"] == "command"]


def test_who_asked_for_a_creation_and_why_is_an_event(site: Site) -> None:
    why = {"reason": "ticket 7", "requested_by": "me"}
    assert site.client.post(PATH, json=a_body(), params={**why, "dry_run": "true"}).status_code == 200
    assert command_sentences(site) == []
    for status in (201, 409):
        assert site.client.post(PATH, json=a_body(), params=why).status_code == status
    (sentence,) = command_sentences(site)
    assert sentence.startswith("me ")
    assert sentence.endswith("ticket 7")
    for _ in range(2):
        assert create(site.client, a_body("again", source=OTHER), KEY).status_code == 201
    assert len(command_sentences(site)) == 2
    (event, *_) = site.client.get("/v1/events", params={"datastream": "orders"}).json()
    assert (event["kind"], event["datastream"], event["plan_epoch"]) == ("command", "orders", 0)
    other = a_body("c", source={**OTHER, "topics": "third"})
    for reason in ("r" * 20_000, "\x00"):
        refused = site.client.post(PATH, json=other, params={"reason": reason})
        assert (refused.status_code, "the reason" in refused.text) == (400, True), refused.text
    assert len(command_sentences(site)) == 2


def test_who_creates_without_a_name_is_known_by_address_and_call(site: Site) -> None:
    assert site.client.post(PATH, json=a_body(), headers={"X-Request-ID": "call-7"}).is_success
    (created,) = command_sentences(site)
    assert "127.0.0.1" in created
    assert "call-7" in created
    document = {
        "name": "m1",
        "connectorName": "kafkaMirroringConnector",
        "source": {"connectionString": "kafka://source-host:9092/u"},
        "destination": {"connectionString": "kafka://destination-host:9192/c.*"},
        "metadata": {"owner": "tests"},
    }
    answer = site.client.post("/datastream", json=document, headers={"X-Request-ID": "call-8"})
    assert answer.status_code == 201, answer.text
    created = command_sentences(site)[0]
    assert created.startswith("Brooklin")
    assert "127.0.0.1" in created
    assert "call-8" in created


def test_one_key_is_for_one_creation(site: Site) -> None:
    assert create(site.client, a_body(), KEY).status_code == 201
    for other in (a_body(start="latest"), a_body("users", source={"cluster": "source", "topics": "u"})):
        answer = create(site.client, other, KEY)
        assert (answer.status_code, answer.json()["kind"]) == (422, "KeyReused")
        assert "datastream orders" in answer.json()["detail"]
    for keys in ((), ('"another"',)):
        answer = create(site.client, a_body(), *keys)
        assert (answer.status_code, answer.json()["kind"]) == (409, "AlreadyExists")
    assert [one["name"] for one in site.client.get(PATH).json()] == ["orders"]


def test_a_key_lasts_as_long_as_its_datastream(site: Site) -> None:
    create(site.client, a_body(), KEY)
    site.client.delete(f"{PATH}/orders")
    assert create(site.client, a_body(), KEY).json()["status"] == "DELETING"
    site.tick(3)
    assert create(site.client, a_body(start="latest"), KEY).status_code == 201


def test_what_was_created_without_a_key_has_none(site: Site) -> None:
    create(site.client, a_body())
    assert create(site.client, a_body(), KEY).status_code == 409


def test_a_damaged_definition_answers_for_no_creation(site: Site) -> None:
    create(site.client, a_body(), KEY)
    site.session.write("/datastreams/orders", b"{", 0)
    assert create(site.client, a_body(), KEY).status_code == 409


def test_a_definition_of_a_version_that_kept_no_keys_is_read(site: Site) -> None:
    create(site.client, a_body(), KEY)
    document = json.loads(site.session.read("/datastreams/orders").data)
    assert set(document.pop("creation")) == {"key", "wish"}
    site.session.write("/datastreams/orders", json.dumps(document).encode(), 0)
    assert site.stored("orders").creation is None


@pytest.mark.parametrize(
    "key", ["bare-key:1", '"with, comma; \\" and \\\\ "', '"' + "x" * 255 + '"', ' "blank" ']
)
def test_a_key_is_a_text_of_printable_ascii(site: Site, key: str) -> None:
    assert create(site.client, a_body(), key).status_code == 201
    assert create(site.client, a_body(), key).status_code == 201


def test_quotes_are_not_part_of_a_key(site: Site) -> None:
    assert create(site.client, a_body(), "abc").status_code == 201
    assert create(site.client, a_body(), '"abc"').status_code == 201
    assert create(site.client, a_body(), '"\\"abc\\""').status_code == 409


NO_KEYS: Final[tuple[tuple[str | bytes, ...], ...]] = (
    ("",),
    ('""',),
    ("two words",),
    ("a,b",),
    ('"a"; b',),
    ('"a',),
    ('a"',),
    ('"\\x"',),
    ("\xe9".encode(),),
    (b'"\xff"',),
    ('"a\tb"',),
    ("x" * 256,),
    ("\\" * 60_000,),
    ('"' + '\\"' * 30_000,),
    ("a", "a"),
)


@pytest.mark.parametrize("keys", NO_KEYS, ids=range(len(NO_KEYS)))
def test_what_is_no_key_is_refused(site: Site, keys: tuple[str | bytes, ...]) -> None:
    answer = create(site.client, a_body(), *keys)
    assert (answer.status_code, answer.json()["kind"]) == (400, "InvalidRequest")
    assert len(answer.content) < 1_000
    assert site.client.get(PATH).json() == []


def identity(name: str, source: str, destination: str) -> dict[str, Any]:
    """Return a datastream that copies topic `t` without renaming it."""
    there = {"cluster": destination, "name": "*"}
    return a_body(name, source={"cluster": source, "topics": "t"}, destination=there)


THERE: Final = identity("there", "source", "destination")


def member(name: str, topic: str, **more: Any) -> dict[str, Any]:
    """Return a datastream that shares tasks with the other members."""
    shared = {"owner": "tests", "system.taskPrefix": "shared", **more.pop("metadata", {})}
    return a_body(name, source={"cluster": "source", "topics": topic}, metadata=shared, **more)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (identity("back", "destination", "source"), "datastream there"),
        (identity("beside", "source", "destination"), "datastream there"),
    ],
    ids=["circle", "double"],
)
def test_of_two_at_once_that_must_not_both_be_the_leader_leaves_the_later_out(
    other: dict[str, Any], why: str
) -> None:
    """Neither is stored when the other is validated, so both are accepted; only the first one is copied."""
    one, two = two_sites()
    two.clock.advance(1)

    def meanwhile(operation: Operation) -> None:
        if (operation.name, operation.path) == ("change_together", "/datastreams/there"):
            one.session.script = lambda _: None
            assert two.client.post(PATH, json=other).status_code == 201

    one.session.script = meanwhile
    assert one.client.post(PATH, json=THERE).status_code == 201
    settle(one, two)
    first, later = (two.client.get(f"{PATH}/{name}").json() for name in ("there", other["name"]))
    assert (first["status"], later["status"]) == ("READY", "READY")
    assert first["problem"] is None
    assert later["problem"] is not None
    assert why in later["problem"]["reason"]
    tasks = one.client.get("/v1/plan").json()["tasks"]
    assert {task["datastream"] for task in tasks if task["partitions"]} == {"there"}
    assert two.client.delete(f"{PATH}/there").is_success
    settle(one, two)
    assert two.client.get(f"{PATH}/{other['name']}").json()["problem"] is None


FEW: Final = {"limits": {"max_tasks": 2}}
MANY: Final = {"limits": {"min_tasks": 3}}


def test_of_two_at_once_that_contradict_each_other_one_is_refused() -> None:
    one, two = two_sites()
    one.source.create(TopicDescription("u", 4))
    two.source.create(TopicDescription("u", 4))

    def meanwhile(operation: Operation) -> None:
        if (operation.name, operation.path) == ("change_together", "/datastreams/a"):
            one.session.script = lambda _: None
            assert two.client.post(PATH, json=member("b", "u", **MANY)).status_code == 201

    one.session.script = meanwhile
    refused = one.client.post(PATH, json=member("a", "t", **FEW))
    assert (refused.status_code, refused.json()["kind"]) == (400, "InvalidRequest")
    assert [each["name"] for each in one.client.get(PATH).json()] == ["b"]


@pytest.mark.parametrize(
    ("mine", "theirs", "what", "counts"),
    [
        (FEW, MANY, "minimum 3, maximum 2", "at most 2"),
        (MANY, FEW, "minimum 3, maximum 2", "at most 2"),
        (
            {"metadata": {"group.id": "g"}},
            {"metadata": {"group.id": "h"}},
            "group.id g",
            "a copies",
        ),
    ],
    ids=["most", "least", "group"],
)
def test_of_two_stored_ones_that_contradict_each_other_the_later_has_the_problem(
    mine: dict[str, Any], theirs: dict[str, Any], what: str, counts: str
) -> None:
    """Older versions do not guard groups. Both are copied, and the problem names the effective values."""
    one, two = two_sites()
    one.source.create(TopicDescription("u", 4))
    two.source.create(TopicDescription("u", 4))
    two.clock.advance(1)
    settle(one, two)

    assert two.client.post(PATH, json=member("b", "u", **theirs)).status_code == 201
    late = two.stored("b")
    two.definitions.remove(late.name)
    assert one.client.post(PATH, json=member("a", "t", **mine)).status_code == 201
    two.definitions.create(late)
    settle(one, two)
    first, later = (two.client.get(f"{PATH}/{name}").json() for name in "ab")
    assert first["problem"] is None
    assert (later["status"], later["problem"]["sets_aside"]) == ("READY", False)
    assert what in later["problem"]["reason"]
    assert counts in later["problem"]["reason"]
    tasks = [task for task in one.client.get("/v1/plan").json()["tasks"] if task["partitions"]]
    assert sum(len(task["partitions"]) for task in tasks) == 6
    assert len(tasks) == 2 if "limits" in mine else tasks
    events = [one["sentence"] for one in two.client.get("/v1/events").json() if one["kind"] == "problem"]
    assert sum(what in sentence for sentence in events) == 1
    assert two.client.delete(f"{PATH}/a").is_success
    settle(one, two)
    assert two.client.get(f"{PATH}/b").json()["problem"] is None
