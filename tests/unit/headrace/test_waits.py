"""Test `--wait` of commands that start long-running work."""

from __future__ import annotations

import json

import httpx
import pytest

from headrace.console.patience import poll_until, unmet_at_deadline
from headrace.process.logs import without_logs
from tests.fakes.in_process import InProcess
from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace, Serve, Write

FILE = "name: users\nsource: {cluster: source, topics: u}\nmetadata: {owner: tests}\n"
BEGUN = [
    (
        ("datastream", "delete", "orders"),
        "orders: delete is done: no remaining tasks; the definition was removed\n",
    ),
    (("datastream", "stop", "orders"), "orders: stop is done: no remaining tasks\n"),
    (("datastream", "move", "orders", "one", "t-0"), "orders: move is done: "),
    (("rebalance", "orders", "--apply"), "orders: rebalance is done: no further change needed; "),
]


@pytest.fixture(autouse=True)
def _time_passes_when_asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the service while a command sleeps."""

    def work(_: float) -> None:
        with without_logs():
            site.tick()

    monkeypatch.setattr("headrace.console.patience.pause", work)
    site.create()


@pytest.mark.parametrize(("command", "told"), BEGUN)
def test_a_command_waits_for_the_end_of_what_it_begins(
    command: tuple[str, ...], told: str, site: Site, headrace: Headrace
) -> None:
    shown = headrace(*command, "--wait")
    assert shown.code == 0, shown.err
    assert shown.out.startswith(told)
    assert " of orders is " in shown.err, "progress must be shown"


def test_a_program_gets_the_operation_as_it_ended(site: Site, headrace: Headrace) -> None:
    for command, _ in reversed(BEGUN):
        ended = json.loads(headrace(*command, "--wait", "--json").out)
        assert (ended["state"], ended["datastream"]) == ("done", "orders")
        assert ended == site.client.get(f"/v1/operations/{ended['id']}").json()


def test_what_failed_fails_the_command_with_the_reason(headrace: Headrace) -> None:
    move = ("datastream", "move", "orders", "one", "t-9", "--wait")
    why = "headrace: orders: move is failed: no task of orders contains any of these partitions\n"
    shown = headrace(*move)
    assert (shown.code, shown.out) == (1, "")
    assert shown.err.endswith(why)
    as_json = headrace(*move, "--json")
    assert (as_json.code, json.loads(as_json.out)["state"]) == (1, "failed")
    assert as_json.err.endswith(why)


def test_what_is_not_over_in_time_fails_the_command_and_is_not_called_off(
    site: Site, headrace: Headrace
) -> None:
    late = headrace("datastream", "delete", "orders", "--wait", "--timeout", "1ms")
    assert (late.code, late.out) == (1, "")
    assert "0.001 s" in late.err
    assert "delete of orders" in late.err
    (operation,) = site.client.get("/v1/operations").json()
    assert f"GET /v1/operations/{operation['id']}" in late.err
    site.tick()
    assert site.client.get("/v1/datastreams/orders").status_code == 404


def test_an_instance_that_is_away_meanwhile_is_asked_again(
    site: Site, headrace: Headrace, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    away: list[httpx.Response | httpx.ConnectError] = [httpx.Response(503), httpx.ConnectError("gone")]

    def once_away(request: httpx.Request) -> httpx.Response:
        if request.method == "GET" and away:
            answer = away.pop()
            if isinstance(answer, httpx.ConnectError):
                raise answer
            return answer
        return InProcess(site.app).handle_request(request)

    serve(httpx.MockTransport(once_away))
    assert headrace("datastream", "stop", "orders", "--wait").code == 0
    assert not away


def test_what_comes_from_the_service_is_escaped(headrace: Headrace, serve: Serve) -> None:
    operation = {"kind": "stop", "datastream": "\x1b[2J", "state": "failed", "sentence": "\r\n\x9b1m"}

    def hostile(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            return httpx.Response(200, json={}, headers={"Location": "/v1/operations/s-1"})
        return httpx.Response(200, json=operation)

    serve(httpx.MockTransport(hostile))
    shown = headrace("datastream", "stop", "orders", "--wait")
    assert shown.code == 1
    assert shown.err == "headrace: \\x1b[2J: stop is failed: \\r\\n\\x9b1m\n"


def test_a_location_that_leads_elsewhere_is_not_followed(headrace: Headrace, serve: Serve) -> None:
    def hostile(request: httpx.Request) -> httpx.Response:
        assert request.method == "POST"
        headers = {"Location": "http://elsewhere/v1/operations/s-1"}
        return httpx.Response(200, json={"name": "orders", "status": "STOPPING"}, headers=headers)

    serve(httpx.MockTransport(hostile))
    assert headrace("datastream", "stop", "orders", "--wait").out == "orders: STOPPING\n"


def test_a_damaged_definition_is_gone_at_once(site: Site, headrace: Headrace) -> None:
    site.session.write("/datastreams/orders", b"{", site.session.read("/datastreams/orders").version)
    assert headrace("datastream", "delete", "orders", "--wait") == (0, "orders: DAMAGED\n", "")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("datastream", "stop", "orders", "--dry-run", "--wait"), "--dry-run"),
        (("rebalance", "orders", "--wait"), "--apply"),
        (("datastream", "delete", "orders", "--timeout", "5s"), "--timeout "),
        (("datastream", "stop", "orders", "--wait", "--timeout", "soon"), "'soon'"),
        (("apply", "-f", "-", "--check", "--wait"), "--check"),
    ],
)
def test_options_that_contradict_each_other_are_refused_before_anything_is_done(
    command: tuple[str, ...], why: str, site: Site, headrace: Headrace
) -> None:
    shown = headrace(*command)
    assert shown.code == 2
    assert why in shown.err
    assert site.client.get("/v1/datastreams/orders").json()["status"] == "READY"


def test_apply_waits_until_what_it_deletes_is_gone(site: Site, headrace: Headrace, write: Write) -> None:
    file = str(write(FILE))
    apply = ("apply", "-f", file, "--prune", "--owner", "tests", "--yes", "--wait")
    late = headrace(*apply, "--timeout", "1ms")
    assert late.code == 1
    assert "DELETING" in late.err
    site.tick()
    site.create()
    done = headrace(*apply)
    assert (done.code, "orders: deleted\n" in done.out) == (0, True), done.err
    assert site.client.get("/v1/datastreams/orders").status_code == 404


def test_asking_again_ends_with_what_is_lacking() -> None:
    assert unmet_at_deadline(lambda: "patience", 0) == "patience"


def test_polling_ends_with_the_first_result_that_is_over() -> None:
    results, pauses = iter([1, 2, 3, 4]), list[float]()
    assert poll_until(lambda: next(results), lambda found: found == 3, 60.0, pauses.append) == 3
    assert pauses == sorted(pauses)
    assert len(pauses) == 2
    assert poll_until(lambda: 7, lambda _: False, 0.0, pauses.append) == 7
