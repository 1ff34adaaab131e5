"""Whichever instance gets it, a dry run of any kind is that of the leader, whatever is away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, cast

import httpx
import pytest
from httpx import Response

from assigner.planner import LoadPlanner
from assigner.settings import AssignerSettings
from mirror.coordination.stores import znodes
from mirror.coordination.stores.measured_load import InstanceMeasurements, MeasuredLoads
from mirror.errors import LoadUnavailable, Unreachable
from mirror.instance.loads.providers import ProviderInUse
from mirror.model.identifiers import ClusterRef, InstanceName
from mirror.model.load import LoadReport
from mirror.model.topics import TopicDescription, TopicPartition
from tests.builders import SOURCE
from tests.examples import examples
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.site import Site, a_body, settle

SAMPLER: Final = InstanceName("sampler")
PLACES: Final = [TopicPartition("t", number) for number in range(8)]
DRY: Final = {"datastream": "orders", "dry_run": True}
PATH: Final = "/v1/datastreams/orders"
OF_OWN_LOADS: Final = {"loads_from", "id", "expires_ms"}
"""Fields in which the answer of a follower without the leader differs from that of the next leader."""

Ask = Callable[[Site], Response]


class Provider:
    """Loads from samples, unless it fails."""

    def __init__(self, site: Site) -> None:
        self._measured = MeasuredLoads(site.session)
        self.is_failing = False

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """Return the loads of the given partitions. Raises LoadUnavailable if `is_failing` is set."""
        if self.is_failing:
            raise LoadUnavailable("the store of samples does not respond")
        return self._measured.loads(cluster, partitions)


def a_site(server: FakeZooKeeper, name: str, beside: Site | None = None) -> Site:
    """Return an instance that plans by load, and sees the same clusters as another."""
    site = Site(server, name, LoadPlanner(AssignerSettings().policy()))
    provider = Provider(site)
    site.leader.fleet_planner._planning.providers._service = ProviderInUse(provider)
    if beside is not None:
        for mine, other in ((site.source, beside.source), (site.destination, beside.destination)):
            mine.__dict__ = other.__dict__
        site.progress, site.first_offsets = beside.progress, beside.first_offsets
    return site


def provider_of(site: Site) -> Provider:
    return cast("Provider", site.leader.fleet_planner._planning.providers._service.provider)


@pytest.fixture
def pair() -> tuple[Site, Site]:
    """Return a leader and a follower, which plan by load."""
    server = FakeZooKeeper()
    one = a_site(server, "one")
    two = a_site(server, "two", one)
    one.source.grow("t", len(PLACES))
    one.source.create(TopicDescription("u", 3))
    settle(one, two)
    one.create()
    settle(one, two)
    two.clock.advance(one.clock.monotonic() - two.clock.monotonic())
    return one, two


def measure(site: Site, random: Random, *, share: float = 0.6) -> None:
    """Publish samples of some partitions, or withdraw all."""
    store = MeasuredLoads(site.session)
    store.withdraw(SAMPLER)
    if random.random() < share:
        some = random.sample(PLACES, random.randint(1, len(PLACES)))
        rates = {one: (random.choice([0.0, 5.0, 20.0, 60.0, 85.0]), 1.0) for one in some}
        store.publish(SAMPLER, InstanceMeasurements({SOURCE: rates}), site.clock.now_ms())


def silence(leader: Site, follower: Site) -> None:
    async def refuse() -> None:
        raise httpx.ConnectError("connection refused")

    follower.neighbours.failures[f"{leader.services.status.name}.test"] = refuse


def next_leader(leader: Site, follower: Site) -> Site:
    """Return an instance that has just taken over, while nothing else has changed."""
    found = a_site(leader.server, "next", leader)
    provider_of(found).is_failing = provider_of(follower).is_failing
    found.clock.advance(follower.clock.monotonic() - found.clock.monotonic())
    found.leader.fleet_planner.keeper.take_up()
    found.leader.leader._leads_as = found.leader.leader._me = follower.services.live()[0]
    return found


def some_dry_run(random: Random) -> tuple[str, Ask]:
    """Return a dry run of any kind."""
    numbers = ",".join(str(one) for one in sorted(random.sample(range(len(PLACES)), random.randint(1, 5))))
    moved = {
        "partitions": [f"t-{one}" for one in numbers.split(",")],
        "instance": random.choice(["one", "two"]),
    }
    tasks = random.randint(1, 4)
    limits = {"limits": {"min_tasks": tasks, "max_tasks": tasks + random.randint(0, 3)}}
    created = a_body("users", source={"cluster": "source", "topics": "u"}, **limits)
    replaced = {"source": {"topics": random.choice(["t", "t|u", "u"])}, **limits}
    full = {"full": random.random() < 0.3}
    kinds: dict[str, tuple[str, str, Any]] = {
        "rebalance": ("POST", "/v1/rebalance", {**DRY, **full}),
        "plan": ("POST", f"{PATH}/plan", full),
        "create": ("POST", "/v1/datastreams", created),
        "update": ("PATCH", PATH, limits),
        "replace": ("PUT", PATH, {**replaced, "metadata": {"owner": "tests"}}),
        "pause": ("POST", f"{PATH}/pause", {}),
        "resume": ("POST", f"{PATH}/resume", {}),
        "stop": ("POST", f"{PATH}/stop", {}),
        "delete": ("DELETE", PATH, None),
        "pause partitions": ("POST", f"{PATH}/pause-partitions", {"partitions": {"t": numbers}}),
        "resume partitions": ("POST", f"{PATH}/resume-partitions", {"partitions": {"t": numbers}}),
        "restart": ("POST", f"{PATH}/restart-from", {"start": "earliest", "allow_duplicates": True}),
        "move": ("POST", f"{PATH}/move", moved),
        "pause group": ("POST", "/v1/groups/orders/pause", {}),
        "resume group": ("POST", "/v1/groups/orders/resume", {}),
        "move elsewhere": ("POST", f"{PATH}/move", {**moved, "instance": "nowhere"}),
    }
    kind = random.choice(list(kinds))
    method, path, body = kinds[kind]

    def ask(site: Site) -> Response:
        tag = site.client.get(PATH).headers.get("ETag", "") if method in {"PATCH", "PUT"} else ""
        headers = {"If-Match": tag} if tag else {}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        params = {} if kind in {"rebalance", "plan"} else {"dry_run": "true"}
        return site.client.request(method, path, json=body, params=params, headers=headers)

    return kind, ask


def outcome_of(answer: Response, without: set[str]) -> Any:
    """Return the status and the answer without these fields; of an error its kind and detail."""
    found = answer.json()
    if answer.status_code >= 400:
        return answer.status_code, found["kind"], found["detail"]
    return answer.status_code, {key: value for key, value in found.items() if key not in without}


def change_something(leader: Site, follower: Site, random: Random) -> None:
    """Let some time pass, with or without loads, changes and observations."""
    measure(leader, random)
    is_failing, seconds = random.random() < 0.2, random.choice([0, 700])
    for site in (leader, follower):
        provider_of(site).is_failing = is_failing
        site.clock.advance(seconds)
    act = random.random()
    if act < 0.3:
        body = {"datastream": "orders", "full": random.random() < 0.3}
        leader.client.post("/v1/rebalance", json=body)
    elif act < 0.4:
        leader.client.post(f"{PATH}/{random.choice(['pause', 'resume', 'stop'])}", json={})
    elif act < 0.6:
        leader.client.post(f"{PATH}/resume", json={})
    settle(leader, follower)
    follower.clock.advance(leader.clock.monotonic() - follower.clock.monotonic())


def test_a_followers_dry_run_is_the_leaders_whatever_is_away(pair: tuple[Site, Site]) -> None:
    leader, follower = pair
    random, done = Random(39), set()
    for number in range(examples(100)):
        change_something(leader, follower, random)
        leader.source.failure = Unreachable("no broker responds") if random.random() < 0.1 else None
        kind, ask = some_dry_run(random)
        mine, theirs = ask(follower), ask(leader)
        assert outcome_of(mine, {"id", "expires_ms"}) == outcome_of(theirs, {"id", "expires_ms"}), (
            number,
            kind,
        )
        if mine.status_code < 300:
            assert mine.json()["loads_from"] == "leader"
            done.add(kind)
    assert len(done) > 3


def test_without_the_leader_it_is_that_of_the_next_leader(pair: tuple[Site, Site]) -> None:
    leader, follower = pair
    random, shown = Random(39), 0
    silence(leader, follower)
    for number in range(examples(60)):
        change_something(leader, follower, random)
        kind, ask = some_dry_run(random)
        mine, theirs = ask(follower), ask(next_leader(leader, follower))
        if mine.status_code < 300:
            shown += 1
            assert mine.json()["loads_from"] == "stored", (number, kind)
            gap = mine.json()["reasons"][-1]
            assert "connection refused" in gap
            ours, others = outcome_of(mine, OF_OWN_LOADS)[1], outcome_of(theirs, OF_OWN_LOADS)[1]
            assert ours == {**others, "reasons": [*others["reasons"], gap]}, (number, kind)
        else:
            assert outcome_of(mine, set()) == outcome_of(theirs, set()), (number, kind)
    assert shown > 3
    assert leader.session.children(znodes.OBSERVATIONS)


def test_before_the_first_plan_it_is_the_leaders_too() -> None:
    server = FakeZooKeeper()
    leader = a_site(server, "one")
    follower = a_site(server, "two", leader)
    leader.source.grow("t", len(PLACES))
    leader.source.create(TopicDescription("u", 3))
    settle(leader, follower)
    random = Random(39)
    for number in range(examples(60)):
        if number == examples(60) // 2:
            assert leader.client.post("/v1/datastreams", json=a_body()).status_code == 201
        measure(leader, random)
        kind, ask = some_dry_run(random)
        mine, theirs = ask(follower), ask(leader)
        assert outcome_of(mine, {"id", "expires_ms"}) == outcome_of(theirs, {"id", "expires_ms"}), (
            number,
            kind,
        )


def test_a_restoration_is_the_leaders_too(pair: tuple[Site, Site]) -> None:
    leader, follower = pair
    measured_then_away(leader, follower)
    for folder in (znodes.DATASTREAMS, znodes.CREATIONS, znodes.DELETED):
        leader.server.session().delete_tree(folder)
    settle(leader, follower)
    mine, theirs = (
        site.client.post("/v1/lost-datastreams/orders/restore", json={}, params={"dry_run": "true"})
        for site in (follower, leader)
    )
    assert mine.json()["starts"]
    assert outcome_of(mine, set()) == outcome_of(theirs, set())


def test_one_that_was_just_elected_is_not_asked_before_it_has_the_loads(pair: tuple[Site, Site]) -> None:
    leader, follower = pair
    measured_then_away(leader, follower)
    leader.leader.leader._leads_as = None
    for site in pair:
        found = site.client.post("/v1/rebalance", json={**DRY, "full": True}).json()
        assert found["loads_from"] == "stored"
        assert found["loads_known"]


def measured_then_away(leader: Site, follower: Site) -> None:
    """Publish three observations, then withdraw the samples."""
    rates = dict.fromkeys(PLACES, (20.0, 1.0))
    for _ in range(3):
        MeasuredLoads(leader.session).publish(
            SAMPLER, InstanceMeasurements({SOURCE: rates}), leader.clock.now_ms()
        )
        for site in (leader, follower):
            site.clock.advance(700)
        settle(leader, follower)
    leader.client.post("/v1/rebalance", json={"datastream": "orders"})
    settle(leader, follower)
    MeasuredLoads(leader.session).withdraw(SAMPLER)


def test_without_the_leader_the_stored_loads_count(pair: tuple[Site, Site]) -> None:
    leader, follower = pair
    measured_then_away(leader, follower)
    silence(leader, follower)
    found = follower.client.post("/v1/rebalance", json={**DRY, "full": True}).json()
    assert (found["loads_known"], found["loads_from"]) == (True, "stored")
    plan = follower.client.post(f"{PATH}/plan", json={"full": True}).json()
    assert (plan["loads_known"], plan["loads_from"]) == (True, "stored")
    assert follower.client.post(f"/v1/plans/{plan['id']}/apply", json={}).status_code == 202


def test_a_plan_without_loads_is_not_applied_over_one_with_loads(pair: tuple[Site, Site]) -> None:
    leader, follower = pair
    measured_then_away(leader, follower)
    silence(leader, follower)
    leader.session.delete_tree(znodes.OBSERVATIONS)
    found = follower.client.post("/v1/rebalance", json={**DRY, "full": True}).json()
    assert (found["loads_known"], found["moves"]) == (False, [])
    plan = follower.client.post(f"{PATH}/plan", json={"full": True}).json()
    path = f"/v1/plans/{plan['id']}/apply"
    answer = follower.client.post(path, json={})
    assert (answer.status_code, answer.json()["kind"]) == (409, "IllegalTransition")
    assert follower.client.post(path, json={"force": True}).status_code == 202
