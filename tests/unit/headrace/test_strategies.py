"""Test placement strategies chosen by datastreams, next to the strategy of the service."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from headrace.placement.planners import check_plug_ins, choose_planner, choose_strategies
from headrace.plug_ins.plan_answers import CheckedStrategy
from headrace.plug_ins.strategies import ChosenStrategies
from headrace.settings import HeadraceSettings, load_settings
from mirror.coordination.placement import SimplePlanner
from mirror.errors import ConfigError, PlanRejected
from mirror.model.identifiers import DatastreamName
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.ports import Planner
from tests.fakes.site import Site, a_body
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.unit.headrace.conftest import ASKED, T0, T1, Write

pytestmark = pytest.mark.usefixtures("installed")
SIMPLE: Final = """
[mirror.leader]
placement_strategy = "simple"
[mirror.leader.strategy_options_by_name.one-each]
most = "1"
"""


def served_by(write: Write, strategy: str) -> HeadraceSettings:
    return load_settings(write(f'[mirror.leader]\nplacement_strategy = "{strategy}"\n'))


@pytest.mark.parametrize(
    ("strategy", "name", "tasks", "said"),
    [
        ("simple", None, 1, "1 task for 2 partitions"),
        ("simple", "simple", 1, "1 task for 2 partitions"),
        ("simple", "one-each", 2, "a task for each"),
        ("one-each", None, 2, "a task for each"),
        ("one-each", "one-each", 2, "a task for each"),
        ("one-each", "simple", 1, "1 task for 2 partitions"),
    ],
)
def test_a_group_is_planned_by_the_strategy_that_it_chooses(
    write: Write, strategy: str, name: str | None, tasks: int, said: str
) -> None:
    planner = choose_strategies(served_by(write, strategy))
    answer = planner.plan(replace(ASKED, strategy=name))
    assert (len(answer.tasks), answer.reasons) == (tasks, (said,))


@pytest.mark.parametrize("name", ["assigner", "auto"])
def test_a_group_may_choose_the_assigner(write: Write, name: str) -> None:
    planner = choose_strategies(served_by(write, "one-each"))
    answer = planner.plan(replace(ASKED, strategy=name))
    assert (answer.defaulted, answer.task_lower_bound) == ((T0, T1), 2)


def test_a_strategy_that_is_not_the_services_has_options_of_its_own(write: Write) -> None:
    settings = load_settings(write(SIMPLE))
    assert "1" not in str(settings.mirror.leader.strategy_options_by_name)
    check_plug_ins(settings)
    assert len(choose_strategies(settings).plan(replace(ASKED, strategy="one-each")).tasks) == 1
    with pytest.raises(ConfigError, match="one-each"):
        check_plug_ins(load_settings(write(SIMPLE.replace('"1"', '"few"'))))
    with pytest.raises(ConfigError, match="'one-all'"):
        check_plug_ins(load_settings(write(SIMPLE.replace("one-each", "one-all"))))
    with pytest.raises(ConfigError, match=r"\bplacement_strategy_options\b"):
        load_settings(write(SIMPLE.replace('"simple"', '"one-each"')))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone", "placement strategy 'gone'"),
        ("no-provider", "method plan"),
    ],
)
def test_the_service_plans_in_place_of_a_strategy_that_cannot_be_made(
    write: Write, name: str, said: str
) -> None:
    planner = choose_strategies(served_by(write, "simple"))
    with capture_logs() as logs:
        answers = [planner.plan(replace(ASKED, strategy=name)) for _ in range(3)]
    assert len({answer.reasons for answer in answers}) == 1
    first, second = answers[0].reasons
    assert said in first
    assert second == "1 task for 2 partitions"
    assert [(one["log_level"], one["chosen"]) for one in logs] == [("warning", name)], "one warning is enough"


def test_a_strategy_that_can_be_made_again_takes_its_place(write: Write) -> None:
    tries: Iterator[ConfigError | Planner] = iter((ConfigError("no licence"), SimplePlanner()))

    def make(_: str) -> Planner:
        found = next(tries)
        if isinstance(found, ConfigError):
            raise found
        return found

    planner = ChosenStrategies(choose_planner(served_by(write, "one-each")), make)
    asked = replace(ASKED, strategy="mine")
    words = [planner.plan(asked).reasons for _ in range(3)]
    assert words[0][0].endswith(": no licence")
    assert words[0][1:] == ("a task for each",)
    assert words[1] == words[2] == ("1 task for 2 partitions",)


def test_a_strategy_that_takes_long_to_be_made_holds_nobody_up(write: Write) -> None:
    let_go = threading.Event()

    def make(_: str) -> Planner:
        let_go.wait(PATIENCE_SECONDS)
        return SimplePlanner()

    planner = ChosenStrategies(choose_planner(served_by(write, "one-each")), make, 0.01)
    asked = replace(ASKED, strategy="mine")
    for said in ("0.01 s", "earlier call"):
        words = planner.plan(asked).reasons
        assert said in words[0]
        assert words[1] == "a task for each"
    let_go.set()
    wait_until(lambda: planner.plan(asked).reasons == ("1 task for 2 partitions",))


class EmptyStrategy:
    def plan(self, request: PlanningRequest) -> GroupPlan:
        return None  # type: ignore[return-value] # hostile on purpose


def test_a_strategy_that_fails_is_not_replaced() -> None:
    planner = ChosenStrategies(SimplePlanner(), lambda name: CheckedStrategy(name, EmptyStrategy()))
    with pytest.raises(PlanRejected, match=r"strategy mine .*NoneType"):
        planner.plan(replace(ASKED, strategy="mine"))


@pytest.fixture
def site(write: Write) -> Site:
    return Site(planner=choose_strategies(served_by(write, "simple")))


def patched(site: Site, strategy: str | None, **query: str) -> Any:
    changes = {"placement": {"strategy": strategy}}
    return site.client.patch("/v1/datastreams/orders", json=changes, headers={"If-Match": "*"}, params=query)


def planned(site: Site) -> Any:
    return site.client.get("/v1/datastreams/orders").json()["planning"]


def test_a_datastream_is_planned_by_the_strategy_that_its_definition_names(site: Site) -> None:
    site.create(placement={"strategy": "one-each"})
    assert (planned(site)["tasks"], planned(site)["reasons"][0]) == (2, "a task for each")
    assert site.stored("orders").metadata["headrace-placement"] == "strategy one-each"
    assert patched(site, None).json()["placement"]["strategy"] is None
    ask = {"datastream": "orders", "dry_run": True}
    assert "1 task for 2 partitions" in site.client.post("/v1/rebalance", json=ask).text
    assert patched(site, "one-each").status_code == 200
    assert "a task for each" in site.client.post("/v1/rebalance", json=ask).text


def test_a_strategy_that_is_not_installed_is_refused_with_those_that_are(site: Site) -> None:
    answers = [site.client.post("/v1/datastreams", json=a_body(placement={"strategy": "gone"}))]
    metadata = {"owner": "tests", "headrace-placement": "strategy gone"}
    answers.append(site.client.post("/v1/datastreams", json=a_body(metadata=metadata)))
    site.create()
    answers += [patched(site, "gone"), patched(site, "gone", dry_run="true")]
    for answer in answers:
        problem = answer.json()
        assert answer.status_code == 400, answer.text
        assert [one["pointer"] for one in problem["errors"]] == ["/placement/strategy"]
        assert problem["kind"] == "InvalidRequest"
        assert "'gone'" in problem["detail"]
        known = {"auto", "assigner", "simple", "no-provider", "one-each"}
        assert known <= set(re.findall(r"[\w-]+", problem["advice"]))
    restli = {
        "name": "old",
        "connectorName": "headrace",
        "transportProviderName": "kafkaTransportProvider",
        "source": {"connectionString": "kafka://source-host:9092/t"},
        "metadata": metadata,
    }
    over_brooklin = site.client.post("/datastream", json=restli)
    assert over_brooklin.status_code == 400
    assert "'gone'" in over_brooklin.text


def test_people_see_that_the_strategy_they_chose_is_not_used(
    site: Site, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one != str(packages)])
    stored = a_body()
    assert site.client.post("/v1/datastreams", json=stored).status_code == 201
    found = site.definitions.get(DatastreamName("orders"))
    metadata = {**found.datastream.metadata, "headrace-placement": "strategy one-each"}
    site.definitions.replace(found, replace(found.datastream, metadata=metadata))
    site.tick()
    first, second, *_ = planned(site)["reasons"]
    assert "'one-each'" in first
    assert second == "1 task for 2 partitions"
    assert patched(site, "one-each").status_code == 200, "a stored value is accepted again"
