"""Test responses that cover all instances, from any instance, and the cost of an unreachable one."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import httpx
import pytest

from api.fleet.questions import AnswerState, Fleet, FleetCredentials, FleetQuery, InstanceResponse
from api.resources.lanes import lanes_read
from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.root import service_secret
from mirror.errors import DamagedState, Unreachable
from mirror.model.identifiers import InstanceName
from tests.fakes.clock import ManualClock
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.site import Site, settle, two_sites

ALL: Final = {"t-0", "t-1"}


@pytest.fixture
def pair() -> tuple[Site, Site]:
    """Return two instances with one of the two partitions each; the first one is the leader."""
    one, two = two_sites()
    one.create(limits={"min_tasks": 2})
    settle(one, two)
    return one, two


def states(found: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["state"] for each in found["instances"]}


def refuse() -> Callable[[], Awaitable[None]]:
    async def failing() -> None:
        raise httpx.ConnectError("connection refused")

    return failing


def be_late() -> Callable[[], Awaitable[None]]:
    async def failing() -> None:
        raise httpx.ReadTimeout("nothing came")

    return failing


def test_whichever_is_asked_answers_for_all(pair: tuple[Site, Site]) -> None:
    for site in pair:
        found = site.client.get("/v1/lanes").json()
        assert states(found) == {"one": "answered", "two": "answered"}
        lanes = {lane["partition"]: lane for lane in found["lanes"]}
        assert lanes.keys() == ALL
        assert {lane["instance"] for lane in lanes.values()} == {"one", "two"}
        instances = site.client.get("/v1/instances").json()
        assert [(each["name"], each["health"]["is_leading"]) for each in instances] == [
            ("one", True),
            ("two", False),
        ]
        assert all(each["health"]["instance"] == each["name"] for each in instances)
    everything = [site.client.get("/v1/lanes").json()["lanes"] for site in pair]
    assert everything[0] == everything[1]


def test_one_of_them_can_be_asked_for_alone_by_way_of_any(pair: tuple[Site, Site]) -> None:
    one, two = pair
    for name, site in (("one", one), ("two", two)):
        for asked in pair:
            found = asked.client.get("/v1/lanes", params={"instance": name}).json()
            assert states(found) == {name: "answered"}
            mine = {str(key.partition) for key in site.app.state.services.status.lanes}
            assert {lane["partition"] for lane in found["lanes"]} == mine
    assert [len(site.neighbours.asked) for site in pair] == [1, 1], "no instance sends requests to itself"
    answer = one.client.get("/v1/lanes", params={"instance": "nobody"})
    assert (answer.status_code, answer.json()["kind"]) == (404, "NotFound")


@pytest.mark.parametrize(("failing", "state"), [(refuse, "unreachable"), (be_late, "timed out")])
def test_one_that_does_not_answer_is_in_the_answer(
    pair: tuple[Site, Site], failing: Callable[[], Callable[[], Awaitable[None]]], state: str
) -> None:
    one, _ = pair
    one.neighbours.failures["two.test"] = failing()
    found = one.client.get("/v1/lanes").json()
    assert states(found) == {"one": "answered", "two": state}
    assert found["instances"][1]["reason"]
    assert {lane["instance"] for lane in found["lanes"]} == {"one"}
    _, other = one.client.get("/v1/instances").json()
    assert (other["state"], other["health"]) == (state, None)
    lag = one.client.get("/v1/datastreams/orders/lag").json()
    assert lag["silent_instances"] == ["two"]
    one.neighbours.failures.clear()
    assert states(one.client.get("/v1/lanes").json())["two"] == "answered"
    assert one.client.get("/v1/datastreams/orders/lag").json()["silent_instances"] == []


def test_without_zookeeper_the_instances_that_were_here_are_asked(pair: tuple[Site, Site]) -> None:
    one, _ = pair
    assert len(one.client.get("/v1/lanes").json()["lanes"]) == 2
    for site in pair:
        site.session.disconnect()
    answer = one.client.get("/v1/lanes")
    assert states(answer.json()) == {"one": "answered", "two": "answered"}
    assert "As-Of-Ms" in answer.headers


def test_all_diagnostics_are_reduced_over_the_instances(pair: tuple[Site, Site]) -> None:
    one, two = pair
    path = "/diag?q=allStatus&type=connector&scope=headrace&content=/partitions"
    for site in pair:
        (element,) = site.client.get(path).json()["elements"]
        assert (element["succeeded"], element["errorMessages"]) == (True, "{}")
        said = {name: json.loads(text) for name, text in json.loads(element["status"]).items()}
        assert said.keys() == {"one", "two"}
        numbers = [tuple(each[0]["topicPartitions"]["t"]) for each in said.values()]
        assert sorted(numbers) == [(0,), (1,)]
    one.neighbours.failures["two.test"] = be_late()
    (element,) = one.client.get(path).json()["elements"]
    assert (element["succeeded"], json.loads(element["status"]).keys()) == (False, {"one"})
    assert json.loads(element["errorMessages"])["two"].startswith("timed out")
    (element,) = two.client.get(path.replace("/partitions", "/none")).json()["elements"]
    assert (element["succeeded"], element["status"]) == (False, "")
    assert json.loads(element["errorMessages"]).keys() == {"one", "two"}


def test_only_an_instance_of_the_service_is_told_and_each_only_what_is_meant_for_it(
    pair: tuple[Site, Site],
) -> None:
    one, two = pair
    one.client.get("/v1/lanes")
    (question,) = one.neighbours.asked
    header = question.headers["Authorization"]
    path = question.url.raw_path.decode()
    assert two.client.get(path, headers={"Authorization": header}).status_code == 200
    wrong = {"Authorization": header[:-1] + ("0" if header[-1] != "0" else "1")}
    for site, headers, asked in (
        (two, {}, path),
        (two, wrong, path),
        (two, {"Authorization": header}, "/v1/fleet/health"),
        (two, {"Authorization": header}, f"{path}?more=1"),
        (one, {"Authorization": header}, path),
    ):
        answer = site.client.get(asked, headers=headers)
        assert (answer.status_code, answer.json()["kind"]) == (401, "NotAuthorized")
    secret = service_secret(one.session)
    assert not any(secret in str(value) for value in question.headers.values())


def test_the_document_of_a_query_is_the_signed_one(pair: tuple[Site, Site]) -> None:
    one, two = pair
    path = "/v1/datastreams/orders/pause"
    assert two.client.post(path, json={}, params={"dry_run": "true"}).json()["loads_from"] == "leader"
    question = two.neighbours.asked[-1]
    signed, header = question.url.raw_path.decode(), {"Authorization": question.headers["Authorization"]}
    body = question.content
    assert one.client.post(signed, content=body, headers=header).status_code == 200
    for asked, content, headers, status in (
        (signed, body + b" ", header, 400),
        (signed, b"", header, 400),
        (signed.replace("digest=", "digest=0"), body, header, 401),
        (signed.partition("?")[0], body, header, 401),
        (signed, body, {}, 401),
    ):
        assert one.client.post(asked, content=content, headers=headers).status_code == status
    assert one.client.post("/v1/fleet/lanes", content=b"{}", headers=header).status_code == 401


def test_an_error_of_the_leader_is_that_of_the_follower(pair: tuple[Site, Site]) -> None:
    one, two = pair
    one.source.failure = Unreachable("no broker responds", advice="start one")
    for site in pair:
        site.clock.advance(100)
    body = {"datastream": "orders", "dry_run": True}
    mine, theirs = (site.client.post("/v1/rebalance", json=body) for site in (two, one))
    assert (mine.status_code, mine.json()["kind"]) == (theirs.status_code, theirs.json()["kind"])
    assert (mine.status_code, mine.json()["detail"]) == (503, theirs.json()["detail"])


def test_what_listens_at_an_address_in_place_of_an_instance_is_not_believed(pair: tuple[Site, Site]) -> None:
    """Try another instance, another service, and an instance of the same name with another secret."""
    one, _ = pair
    apps = one.neighbours._apps
    stranger = Site(FakeZooKeeper(), "two")
    stranger.tick()
    for other in (one.app, stranger.app):
        apps["two.test"] = other  # type: ignore[index]
        found = one.client.get("/v1/lanes").json()
        assert states(found) == {"one": "answered", "two": "unreachable"}
        assert "HTTP 401" in found["instances"][1]["reason"]
        assert {lane["instance"] for lane in found["lanes"]} == {"one"}


def test_a_secret_that_was_replaced_is_read_again(pair: tuple[Site, Site]) -> None:
    one, two = pair
    one.client.get("/v1/lanes")
    two.client.get("/v1/lanes")
    one.session.write("/secret", b"another secret that is long enough", 0)
    for site in pair:
        site.clock.advance(60)
    for _ in range(2):
        found = [states(site.client.get("/v1/lanes").json()) for site in pair]
    assert found == [{"one": "answered", "two": "answered"}] * 2


def test_a_secret_that_could_be_guessed_is_none() -> None:
    session = FakeZooKeeper().session()
    session.create("/secret", b"short")
    with pytest.raises(DamagedState):
        service_secret(session)
    session.delete("/secret")
    assert service_secret(session) == service_secret(session)


class Answering(httpx.AsyncBaseTransport):
    """Transport that signs like the addressed instance; hosts in `silent` never respond."""

    def __init__(self, credentials: FleetCredentials, silent: frozenset[str] = frozenset()) -> None:
        self._credentials = credentials
        self._silent = silent
        self.body = b"[]"
        self.status = 200
        self.headers: dict[str, str] = {}
        self.at_once = self.most_at_once = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if request.url.host in self._silent:
                await asyncio.Event().wait()
            await asyncio.sleep(0)
        finally:
            self.at_once -= 1
        name = InstanceName(request.url.host)
        nonce = request.headers["Authorization"].split()[1].partition(".")[0]
        signature = self._credentials.answer_signature(name, nonce, self.body)
        headers = {"X-Headrace-Signature": signature, **self.headers}
        return httpx.Response(self.status, headers=headers, stream=httpx.ByteStream(self.sent(self.body)))

    def sent(self, body: bytes) -> bytes:
        return gzip.compress(body) if "Content-Encoding" in self.headers else body


def an_instance(name: str) -> LiveInstance:
    return LiveInstance(InstanceName(name), 0, "host", 1, f"{name}:80")


def asked(
    transport: Answering, credentials: FleetCredentials, names: list[str], seconds: float
) -> list[InstanceResponse[Any]]:
    async def ask() -> list[InstanceResponse[Any]]:
        fleet = Fleet(credentials, lambda: transport, seconds)
        try:
            return await fleet.ask([an_instance(name) for name in names], FleetQuery("lanes"), lanes_read)
        finally:
            await fleet.close()

    return asyncio.run(ask())


def credentials_of(secret: str = "secret") -> FleetCredentials:
    return FleetCredentials(lambda: secret, ManualClock())


class InParts(Answering):
    """Transport whose responses arrive in parts of 1 KiB."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        whole = await super().handle_async_request(request)
        return httpx.Response(whole.status_code, headers=whole.headers, stream=Parts(self.body))


class Parts(httpx.AsyncByteStream):
    """A body that arrives in parts of 1 KiB."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._body), 1024):
            await asyncio.sleep(0)
            yield self._body[start : start + 1024]


def test_the_time_for_a_large_response_grows_with_its_size_only() -> None:
    credentials = credentials_of()
    transport = InParts(credentials)
    transport.body = b"[" + b" " * 24 * 2**20 + b"]"
    (reply,) = asked(transport, credentials, ["two"], 5.0)
    assert (reply.state, reply.value) == (AnswerState.ANSWERED, [])


def test_of_many_only_some_are_asked_at_once_and_all_answer_in_their_order() -> None:
    credentials = credentials_of()
    transport = Answering(credentials)
    names = [f"i{number}" for number in range(200)]
    replies = asked(transport, credentials, names, 60.0)
    assert [(one.instance, one.state) for one in replies] == [(name, AnswerState.ANSWERED) for name in names]
    assert 1 < transport.most_at_once <= 32


def test_frozen_ones_are_not_waited_for_longer_than_the_deadline() -> None:
    credentials = credentials_of()
    names = [f"i{number}" for number in range(100)]
    replies = asked(Answering(credentials, frozenset(names)), credentials, names, 0.05)
    assert {one.state for one in replies} == {AnswerState.TIMED_OUT}


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b"{}", "must be"),
        (200, b'[{"datastream": 7}]', "partition"),
        (200, b"no JSON", "JSON"),
        (404, b'{"detail": "nothing"}', "HTTP 404: nothing"),
        (500, b"\xff", "HTTP 500"),
    ],
)
def test_what_is_not_understood_is_no_answer(status: int, body: bytes, reason: str) -> None:
    credentials = credentials_of()
    transport = Answering(credentials)
    transport.status, transport.body = status, body
    (reply,) = asked(transport, credentials, ["one"], 60.0)
    assert (reply.state, reply.value) == (AnswerState.UNREACHABLE, None)
    assert reason in reply.reason


def test_a_compressed_response_is_not_opened() -> None:
    credentials = credentials_of()
    transport = Answering(credentials)
    transport.headers = {"Content-Encoding": "gzip"}
    (reply,) = asked(transport, credentials, ["one"], 60.0)
    assert reply.state is AnswerState.UNREACHABLE


def test_what_is_not_signed_by_the_service_is_no_answer() -> None:
    (reply,) = asked(Answering(credentials_of("another")), credentials_of(), ["one"], 60.0)
    assert (reply.state, reply.reason[:7]) == (AnswerState.UNREACHABLE, "one:80:")


def test_an_instance_says_its_own_lanes_whoever_else_is_away() -> None:
    site = Site()
    site.create()
    site.session.disconnect()
    assert site.client.get("/v1/lanes").status_code == 503, "the instances were never read"
    answer = site.client.get("/v1/lanes", params={"instance": "one"})
    assert {lane["partition"] for lane in answer.json()["lanes"]} == ALL
    assert "As-Of-Ms" not in answer.headers


def test_lanes_of_one_datastream_are_asked_for_alone(pair: tuple[Site, Site]) -> None:
    one, two = pair
    one.create("more", destination={"cluster": "destination", "name": "more.*"}, limits={"min_tasks": 2})
    settle(one, two)
    for site in pair:
        found = site.client.get("/v1/lanes", params={"datastream": "orders"}).json()
        assert {lane["datastream"] for lane in found["lanes"]} == {"orders"}
        assert {lane["partition"] for lane in found["lanes"]} == ALL
    assert "group=orders" in str(one.neighbours.asked[-1].url)
    assert one.client.get("/v1/lanes", params={"datastream": "nothing"}).json()["lanes"] == []
