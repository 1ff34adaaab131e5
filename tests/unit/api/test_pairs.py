"""Pairs of clusters over REST: the document of `headrace dr status`, and states that are unknown."""

from __future__ import annotations

from typing import Final

from headrace.dr.state_store import fresh_state
from headrace.dr.status import PairView
from mirror.jobs.dr.operation import STEPS, Kind, Step, begin, completed, entered, operation_of
from mirror.jobs.dr.settings import PairSettings
from tests.fakes.site import Site

PAIR: Final = PairSettings(primary="source", standby="destination", datastreams=["orders"])
FRESH: Final = fresh_state("payments", PAIR)


def test_a_pair_has_its_lag_and_plan(site: Site) -> None:
    site.create("orders")
    site.pairs = [PairView("payments", PAIR, FRESH)]
    (found,) = site.client.get("/v1/dr").json()
    assert (found["pair"], found["active"], found["operation"]) == ("payments", "source", None)
    assert [topic["topic"] for topic in found["topics"]] == ["t"]
    assert [row["step"] for row in found["plan"]] == [step.value for step in STEPS[Kind.SWITCHOVER]]
    assert [row["step"] for row in found["failover"]] == [step.value for step in STEPS[Kind.FAILOVER]]


def test_an_operation_in_progress_and_past_ones_are_shown(site: Site) -> None:
    there = begin(FRESH, "destination", "i", 1, "ann@host")
    over = completed(there.with_(operation=entered(operation_of(there), Step.OPEN, 2)), 3)
    back = begin(over, "source", "j", 4, "bob@host")
    site.pairs = [PairView("payments", PAIR, back)]
    (found,) = site.client.get("/v1/dr").json()
    assert (found["state"], found["operation"]["operator"]) == ("failing-back", "bob@host")
    assert found["plan"]
    assert found["failover"] == []
    assert [past["identity"] for past in found["history"]] == ["i"]


def test_what_is_unknown_is_a_problem_of_its_pair_only(site: Site) -> None:
    site.create("orders")
    missing = PAIR.model_copy(update={"datastreams": ["none"]})
    site.pairs = [
        PairView("a", PAIR, None, "the store does not respond"),
        PairView("b", missing, fresh_state("b", missing)),
        PairView("c", PAIR, FRESH),
    ]
    unknown, lost, well = site.client.get("/v1/dr").json()
    assert (unknown["state"], unknown["active"], unknown["plan"]) == ("unknown", None, [])
    assert (len(unknown["problems"]), len(lost["problems"])) == (1, 1)
    assert lost["state"] == "degraded"
    assert well["topics"]


def test_without_pairs_the_list_is_empty(site: Site) -> None:
    assert site.client.get("/v1/dr").json() == []
