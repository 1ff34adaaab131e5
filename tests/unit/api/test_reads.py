"""Test reads of shared state while ZooKeeper responds, and while it does not."""

from __future__ import annotations

import gc
import threading
from contextlib import suppress
from functools import partial
from typing import Final

import pytest
from httpx import Client

from api.fleet.reads import AGE, AS_OF, StateMemory, kept_up
from mirror.coordination.stores.problems import Problem
from mirror.errors import Unreachable
from mirror.model.identifiers import DatastreamName
from mirror.model.metrics import PlacementEvent
from tests.fakes.clock import ManualClock
from tests.fakes.site import Site, a_body
from tests.patience import wait_until

COPY: Final = {"cluster": "destination", "name": "more.*"}
READS: Final = (
    "/v1/datastreams",
    "/v1/datastreams/orders",
    "/v1/plan",
    "/v1/events",
    "/v1/instances",
    "/v1/operations",
    "/datastream",
    "/datastream/orders",
    "/datastream?q=findGroup&datastreamName=orders",
)


def test_what_zookeeper_says_now_has_no_age(client: Client, site: Site) -> None:
    site.create()
    for path in READS:
        answer = client.get(path)
        assert answer.status_code == 200
        assert not {AS_OF, AGE} & answer.headers.keys()


@pytest.mark.parametrize("path", READS)
def test_while_zookeeper_is_away_what_was_read_last_is_shown_with_its_age(path: str, site: Site) -> None:
    site.create()
    for one in ("/v1/datastreams", "/v1/plan", "/v1/instances", "/v1/events?limit=1000"):
        assert site.client.get(one).status_code == 200
    before, read_ms = site.client.get(path), site.clock.now_ms()
    site.session.disconnect()
    site.clock.advance(7.5)
    answer = site.client.get(path)
    assert (answer.status_code, answer.json()) == (200, before.json())
    assert (answer.headers[AS_OF], answer.headers[AGE]) == (str(read_ms), "7")
    assert answer.headers.get("ETag") == before.headers.get("ETag")
    site.session.reconnect()
    assert AGE not in site.client.get(path).headers


def test_a_session_that_is_over_is_no_end_of_reading(site: Site) -> None:
    site.create()
    before = site.client.get("/v1/datastreams").json()
    site.session.expire()
    site.session.is_up = True
    answer = site.client.get("/v1/datastreams")
    assert (answer.status_code, answer.json()) == (200, before)
    assert AGE in answer.headers


def test_what_is_not_remembered_is_not_said_to_be_missing(site: Site) -> None:
    site.create()
    site.client.get("/v1/datastreams")
    site.session.disconnect()
    answer = site.client.get("/v1/datastreams/later")
    assert (answer.status_code, answer.json()["kind"]) == (503, "Unreachable")


def test_what_was_acknowledged_just_before_an_outage_is_shown_in_it(site: Site) -> None:
    answer = site.client.post("/v1/datastreams", json=a_body())
    site.session.disconnect()
    assert site.client.get("/v1/datastreams/orders").status_code == 503, "the problem was never read"
    site.session.reconnect()
    tag = site.client.get("/v1/datastreams/orders").headers["ETag"]
    assert tag == answer.headers["ETag"]
    site.client.get("/v1/datastreams")
    site.clock.advance(1)
    patch = {"metadata": {"owner": "others"}}
    answer = site.client.patch("/v1/datastreams/orders", json=patch, headers={"If-Match": tag})
    assert answer.status_code == 200
    site.session.disconnect()
    seen = site.client.get("/v1/datastreams/orders")
    assert (seen.json()["owner"], seen.headers["ETag"]) == ("others", answer.headers["ETag"])
    assert AGE in seen.headers


def test_of_several_reads_the_oldest_counts(site: Site) -> None:
    site.create()
    site.client.get("/v1/plan")
    oldest = site.clock.now_ms()
    site.clock.advance(60)
    site.app.state.memory.read("plan", site.app.state.services.plan)
    site.session.disconnect()
    assert site.client.get("/v1/plan").headers[AS_OF] == str(oldest)


def test_each_write_is_seen_by_the_read_after_it_here_and_elsewhere(site: Site) -> None:
    """Other instances see it with the notification from ZooKeeper, which the fake sends at once."""
    other = Site(site.server, "two")
    site.create()
    for number in range(3):
        owner = f"team-{number}"
        tag = site.client.get("/v1/datastreams/orders").headers["ETag"]
        patch = {"metadata": {"owner": owner}}
        answer = site.client.patch("/v1/datastreams/orders", json=patch, headers={"If-Match": tag})
        assert answer.status_code == 200, answer.text
        for client in (site.client, other.client):
            (listed,) = client.get("/v1/datastreams").json()
            got = client.get("/v1/datastreams/orders")
            assert (listed["owner"], got.json()["owner"]) == (owner, owner)
            assert got.headers["ETag"] == answer.headers["ETag"]
    assert site.client.post("/v1/datastreams", json=a_body("more", destination=COPY)).status_code == 201
    assert [len(one.client.get("/v1/datastreams").json()) for one in (site, other)] == [2, 2]


def test_a_list_of_a_thousand_costs_one_answer_of_zookeepers_each(site: Site) -> None:
    site.create()
    one = site.stored("orders")
    for number in range(1_000):
        document = site.server.dump()["/datastreams/orders"].replace(b"orders", b"d-%04d" % number)
        site.session.create(f"/datastreams/d-{number:04}", document)
    assert len(site.client.get("/v1/datastreams").json()) == 1_001
    before = site.session.round_trips
    assert len(site.client.get("/v1/datastreams").json()) == 1_001
    assert len(site.client.get("/datastream").json()["elements"]) == 1_001
    assert site.session.round_trips - before == 4, "names twice, problems and assessments once"
    assert site.stored("orders") == one


def test_nobody_waits_for_a_zookeeper_that_has_frozen() -> None:
    """Covers a response in transit when it freezes, and later requests."""
    clock, is_answering = ManualClock(), [True]
    memory = StateMemory(clock, lambda: is_answering[0])
    assert memory.read("plan", lambda: 1).value == 1
    first, thawed = clock.now_ms(), threading.Event()

    def frozen() -> int:
        is_answering[0] = False
        assert thawed.wait(60)
        return 2

    clock.advance(1)
    try:
        for _ in range(20):
            seen = memory.read("plan", frozen)
            assert (seen.value, seen.as_of_ms, seen.is_now) == (1, first, False)
        with pytest.raises(Unreachable):
            memory.read("other", _away)
    finally:
        thawed.set()
    is_answering[0] = True
    seen = memory.read("plan", lambda: 3)
    assert (seen.value, seen.is_now) == (3, True)


def test_a_clock_that_is_set_back_ages_no_cache() -> None:
    clock, is_answering = ManualClock(), [True]
    memory = StateMemory(clock, lambda: is_answering[0])
    assert memory.read("plan", lambda: 1).value == 1
    clock.set_back(3_600)
    for value in (2, 3):
        clock.advance(1)
        assert memory.read("plan", partial(int, value)).value == value
        memory.note_written("plans", "one", value)
    is_answering[0] = False
    assert memory.read("plan", _away).value == 3
    assert memory.read_part("plans", "one", _away, lambda _: 0).value == 3


def test_a_clock_that_is_set_back_hides_no_age(site: Site) -> None:
    site.create()
    assert site.client.get("/v1/plan").status_code == 200
    site.session.disconnect()
    site.clock.advance(30)
    site.clock.set_back(3_600)
    assert site.client.get("/v1/plan").headers[AGE] == "30"


def test_a_part_that_cannot_be_read_ages_no_other_part_of_the_cache(site: Site) -> None:
    site.create()
    site.server.session().write("/plan", b"{", site.session.read("/plan").version)
    memory = site.app.state.memory

    def is_cached() -> bool:
        with suppress(Unreachable):
            return bool(memory.read("operations", _away))
        return False

    assert not is_cached()
    with kept_up(site.app):
        wait_until(is_cached)


def test_lists_of_many_sizes_leave_few_copies_of_events_in_memory(site: Site) -> None:
    site.create()
    total = len(site.client.get("/v1/events?limit=10000").json())
    assert total > 3

    def copies() -> int:
        gc.collect()
        return sum(isinstance(each, PlacementEvent) for each in gc.get_objects())

    before = copies()
    for limit in (*range(1, 120), 999, 1_000, 1_001, 9_999):
        assert len(site.client.get(f"/v1/events?limit={limit}").json()) == min(limit, total)
    assert copies() - before <= 10 * total


def _away() -> int:
    raise Unreachable("ZooKeeper does not answer")


def test_a_list_shows_each_definition_and_problem_as_they_are_now(site: Site) -> None:
    """The text of a definition is cached until the definition or its problem changes."""
    site.create()
    for number in range(3):
        path = "/v1/datastreams/orders"
        tag = site.client.get(path).headers["ETag"]
        site.client.patch(path, json={"owner": f"team-{number}"}, headers={"If-Match": tag})
        name, problem = DatastreamName("orders"), Problem(f"it hurts {number}", number)
        site.app.state.services.problems.put(name, problem)
        for _ in range(2):
            (listed,) = site.client.get("/v1/datastreams").json()
            assert listed == site.client.get(path).json()
            assert (listed["owner"], listed["problem"]["reason"]) == (f"team-{number}", problem.reason)
    site.app.state.services.problems.remove(DatastreamName("orders"))
    (listed,) = site.client.get("/v1/datastreams").json()
    assert listed["problem"] is None
