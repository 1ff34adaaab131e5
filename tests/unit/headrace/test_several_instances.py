"""Test that commands with several addresses use the first instance that responds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from headrace.console.client import RestClient
from headrace.settings import load_settings
from mirror.errors import InvalidRequest, Unreachable
from tests.fakes.in_process import InProcess
from tests.fakes.site import Site, a_body
from tests.unit.headrace.conftest import Headrace, Serve, Write


class Instances(httpx.BaseTransport):
    """Instances of one service by host. `failures`: errors by host; `asked`: hosts of the requests so far."""

    def __init__(self, site: Site) -> None:
        self._inner = InProcess(site.app)
        self.failures: dict[str, Exception] = {"down": httpx.ConnectError("refused")}
        self.asked: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.host)
        if (failure := self.failures.get(request.url.host)) is not None:
            raise failure
        request.url = request.url.copy_with(host="test")
        request.headers["Host"] = "test"
        return self._inner.handle_request(request)


@pytest.fixture
def instances(serve: Serve) -> Instances:
    site = Site()
    site.create("orders")
    found = Instances(site)
    serve(found)
    return found


def test_each_instance_of_the_option_is_tried(instances: Instances, headrace: Headrace) -> None:
    shown = headrace("datastream", "get", "orders", "--at", "down:1,up:2")
    assert shown.code == 0, shown.err
    assert json.loads(shown.out)["name"] == "orders"
    assert instances.asked == ["down", "up"]


def test_each_instance_of_the_settings_is_tried(
    instances: Instances, headrace: Headrace, write: Write
) -> None:
    file = write('[commands]\naddresses = ["down:1", "up:2"]')
    done = headrace("datastream", "pause", "orders", "--reason", "why", "--config", str(file))
    assert (done.code, done.out) == (0, "orders: PAUSED\n")
    assert headrace("datastream", "get", "orders", "--at", "up:2", "--config", str(file)).code == 0
    assert instances.asked == ["down", "up", "up"], "the option overrides the settings"


def test_where_none_answers_all_are_named(instances: Instances, headrace: Headrace) -> None:
    instances.failures["up"] = httpx.ConnectTimeout("silent")
    failed = headrace("status", "--at", "down:1,up:2")
    assert failed.code != 0
    assert "down:1" in failed.err
    assert "up:2" in failed.err


@pytest.fixture
def client(instances: Instances) -> Iterator[RestClient]:
    found = RestClient("down:1,up:2,third:3")
    yield found
    found.close()


def test_the_instance_that_answered_is_asked_again(client: RestClient, instances: Instances) -> None:
    for _ in range(2):
        assert client.get("/v1/datastreams/orders")["name"] == "orders"
    assert instances.asked == ["down", "up", "up"]
    instances.failures = {"up": httpx.ReadError("killed")}
    assert client.get("/v1/datastreams/orders")["name"] == "orders"
    assert instances.asked[3:] == ["up", "third"]


def test_others_are_looked_up_once_if_none_of_the_known_responds(instances: Instances) -> None:
    looked = list[str]()

    def more() -> list[str]:
        looked.append("up")
        return ["down:1", "up:2", "up:2"]

    with closing(RestClient("down:1", find_more=more)) as client:
        assert client.get("/v1/datastreams/orders")["name"] == "orders"
        assert client.get("/v1/datastreams/orders")["name"] == "orders"
        assert instances.asked == ["down", "up", "up"]
        instances.failures["up"] = httpx.ConnectError("refused")
        with pytest.raises(Unreachable, match="up:2"):
            client.get("/v1/datastreams/orders")
    assert looked == ["up"]


def test_no_other_is_looked_up_for_a_change_that_may_have_arrived(instances: Instances) -> None:
    instances.failures["down"] = httpx.ReadTimeout("silent")
    with closing(RestClient("down:1", find_more=lambda: ["up:2"])) as client:
        with pytest.raises(Unreachable):
            client.post("/v1/datastreams/orders/pause")
        assert instances.asked == ["down"]
        assert client.get("/v1/datastreams/orders")["status"] != "PAUSED"
    assert instances.asked == ["down", "down", "up"]


def test_a_change_that_may_have_arrived_is_not_sent_twice(client: RestClient, instances: Instances) -> None:
    instances.failures["up"] = httpx.ReadTimeout("silent")
    with pytest.raises(Unreachable):
        client.post("/v1/datastreams/orders/pause")
    assert instances.asked == ["down", "up"]
    assert client.post("/v1/datastreams/orders/pause")["status"] == "PAUSED"
    assert instances.asked[2:] == ["third"]


def test_a_creation_may_be_sent_to_each(client: RestClient, instances: Instances) -> None:
    instances.failures["up"] = httpx.ReadTimeout("silent")
    body = a_body("more", destination={"cluster": "destination", "name": "m.*"})
    assert client.create("/v1/datastreams", body)["name"] == "more"
    assert instances.asked == ["down", "up", "third"]


def test_events_are_read_from_an_instance_that_answers(client: RestClient, instances: Instances) -> None:
    instances.failures["up"] = httpx.ReadError("killed")
    headers = {"Accept": "application/json"}
    with client.stream("/v1/events", headers) as chunks:
        assert json.loads(b"".join(chunks))
    assert instances.asked == ["down", "up", "third"]


@pytest.mark.parametrize("at", ["a:1,", ",a:1", "a:1,b", "a:1 b:2", "ftp://a:1,b:2"])
def test_a_list_with_an_address_that_is_none_is_refused(at: str, headrace: Headrace) -> None:
    refused = headrace("status", "--at", at)
    assert refused.code == 2
    assert "Traceback" not in refused.err


def test_the_scheme_of_the_first_is_that_of_those_without(write: Write) -> None:
    settings = load_settings(write("[api]"))
    assert settings.service_address("https://a:1, b:2") == "https://a:1,https://b:2"
    assert settings.service_address("a:1,b:2") == "a:1,b:2"
    with pytest.raises(InvalidRequest):
        settings.service_address("a:1,ftp://b:2")
