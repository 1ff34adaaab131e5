"""Test computing, showing and applying a plan from the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.process.logs import without_logs
from tests.fakes.site import Site
from tests.unit.api.test_plans import make_heavy
from tests.unit.headrace.conftest import Headrace

COMPUTE = ("datastream", "plan", "orders", "--full")


@pytest.fixture(autouse=True)
def _a_task_with_too_much(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the service while a command sleeps."""

    def work(_: float) -> None:
        with without_logs():
            site.tick()

    monkeypatch.setattr("headrace.console.patience.pause", work)
    site.create()
    make_heavy(site)


def computed(headrace: Headrace, *options: str) -> Any:
    return json.loads(headrace(*COMPUTE, *options, "--json").out)


def in_force(site: Site) -> list[list[str]]:
    return [task["partitions"] for task in site.client.get("/v1/plan").json()["tasks"]]


def test_a_plan_is_computed_and_shown_and_nothing_changes(site: Site, headrace: Headrace) -> None:
    made = headrace(*COMPUTE)
    assert made.code == 0, made.err
    for text in (
        "plan p-0000000000 of orders: ",
        "- 2 tasks for 2 partitions",
        "1 partition would move",
        "t-1",
        "B/s would move",
        "headrace datastream apply-plan p-0000000000",
    ):
        assert text in made.out
    assert headrace("datastream", "show-plan", "p-0000000000") == made
    shown = json.loads(headrace("datastream", "show-plan", "p-0000000000", "--json").out)
    assert shown == site.client.get("/v1/plans/p-0000000000").json()
    site.tick()
    assert in_force(site) == [["t-0", "t-1"]]


def test_exactly_that_plan_is_put_in_force_once_and_waited_for(site: Site, headrace: Headrace) -> None:
    identity = computed(headrace)["id"]
    apply = ("datastream", "apply-plan", identity, "--by", "me")
    done = headrace(*apply, "--wait")
    assert done.code == 0, done.err
    assert done.out.startswith("orders: apply ")
    assert "done" in done.out
    assert in_force(site) == [["t-0"], ["t-1"]]
    again = headrace(*apply)
    assert (again.code, again.out) == (2, "")
    assert identity in again.err
    assert "already applied" in again.err
    assert "me" in headrace("datastream", "show-plan", identity).out


def test_without_waiting_the_operation_is_answered(site: Site, headrace: Headrace) -> None:
    identity = computed(headrace, "--reason", "to see", "--by", "me")["id"]
    queued = json.loads(headrace("datastream", "apply-plan", identity, "--json").out)
    assert (queued["id"], queued["operation"]["state"]) == (identity, "queued")
    assert queued["operation"]["requested_by"] == "command line"
    other = computed(headrace)["id"]
    said = headrace("datastream", "apply-plan", other)
    assert said.out.startswith(f"plan {other}: queued; ")
    assert said.out.count("\n") == 1


def test_what_is_not_true_any_more_is_said_and_refused(site: Site, headrace: Headrace) -> None:
    identity = computed(headrace)["id"]
    assert headrace("datastream", "update", "orders", "--max-tasks", "5").code == 0
    assert "definitions of orders" in headrace("datastream", "show-plan", identity).out
    refused = headrace("datastream", "apply-plan", identity, "--wait")
    assert (refused.code, refused.out) == (2, "")
    assert f"plan {identity} is outdated" in refused.err


def test_a_plan_that_changes_nothing_says_so(headrace: Headrace) -> None:
    first = computed(headrace)["id"]
    headrace("datastream", "apply-plan", first, "--wait")
    assert "no partition" in headrace(*COMPUTE).out


@pytest.mark.parametrize("identity", ["", ".", "..", "p-0000000009", "../datastreams/orders", "x/apply"])
def test_what_is_no_plan_leads_nowhere(identity: str, headrace: Headrace) -> None:
    for command in ("show-plan", "apply-plan"):
        found = headrace("datastream", command, identity)
        assert found.code in (1, 2)
        assert found.out == ""
        assert found.err.startswith("headrace: ")
        assert "plan" in found.err
