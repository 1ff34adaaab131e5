"""The page of a datastream: definition, partitions, pauses, changes and destructive actions."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import expect

from api.app import create_app
from mirror.audit.verdicts import Verdict
from mirror.instance.workers.lane_track import LaneTrack
from mirror.jobs.audits.summary import AuditFault, TopicAudit
from mirror.model.datastreams.lanes import QuotaHold, QuotaOwner
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicDescription
from mirror.worker.protocol import LaneRate
from monitor.causes.sentences import CauseFigures
from tests.browser.chromium import PHONE
from tests.browser.conftest import OpenPage, Serve
from tests.browser.test_flows import violations
from tests.builders import SOURCE
from tests.fakes.site import Site

pytestmark = pytest.mark.long


@pytest.fixture
def site() -> Site:
    """Return a site on which `orders` mirrors two topics of 60 and 2 partitions.

    The lag of each lane is its partition number.
    """
    site = Site()
    site.source.topics |= {"t": TopicDescription("t", 60), "u": TopicDescription("u", 2)}
    site.create(
        source={"cluster": "source", "topics": "t|u"}, destination={"cluster": "destination", "name": "eu.*"}
    )
    states = site.follower.workers._states
    for key in list(states):
        number = key.partition.partition
        rate = LaneRate(key, SOURCE, 1_000.0 * number, 1.0, number, number * 100, checkpoint=5_000)
        states[key] = replace(states[key], track=LaneTrack(rate=rate))
    site.follower.run_loop()
    return site


@pytest.mark.parametrize("more", [{}, {"viewport": PHONE, "has_touch": True}])
def test_partitions_are_a_table_that_is_sorted_filtered_and_paged(
    more: dict[str, Any], site: Site, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve(site.app)}/ui/#/datastreams/orders", **more)
    card = page.get_by_role("region", name="Partitions", exact=True)
    rows = card.locator("tbody tr")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text("t-59")
    for text in ("5,059", "5,000", "59", "5.9 s", "59 kB/s", "orders-0", "one"):
        expect(rows.first).to_contain_text(text)
    expect(card.get_by_role("status")).to_have_text(re.compile(r"^1\D+50\D+62\b"))
    card.locator(".acts button").last.click()
    expect(card.get_by_role("status")).to_have_text(re.compile(r"^51\D+62\D+62\b"))
    card.get_by_role("searchbox").fill("u-")
    expect(rows).to_have_count(2)
    if not more:
        card.get_by_role("button", name="Partition", exact=True).click()
        expect(rows.first).to_contain_text("u-0")
        expect(card.get_by_role("columnheader", name="Partition")).to_have_attribute("aria-sort", "ascending")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]  # type: ignore[index]
    assert violations(page) == []


def test_the_definition_and_its_topics_are_shown(site: Site, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(f"{serve(site.app)}/ui/#/datastreams/orders")
    card = page.get_by_role("region", name="Definition")
    for text in ("t|u", "eu.*", "effectively-once", "earliest"):
        expect(card.get_by_text(text, exact=True)).to_be_visible()
    expect(card.locator("summary")).to_contain_text("2")
    card.locator("summary").click()
    expect(card.locator("tbody tr").first).to_contain_text("eu.t")
    expect(card.locator("tbody tr").first).to_contain_text("60")


def test_what_is_paused_is_one_list(site: Site, serve: Serve, open_page: OpenPage) -> None:
    site.client.post(
        "/v1/datastreams/orders/pause-partitions", json={"partitions": {"u": "0"}, "reason": "ticket 7"}
    ).raise_for_status()
    site.tick()
    key = next(one for one in site.follower.workers._states if str(one.partition) == "t-7")
    site.follower.workers.pause(key, "a record is too large")
    site.follower.run_loop()
    page = open_page(f"{serve(site.app)}/ui/#/datastreams/orders")
    listed = page.get_by_role("list", name="Paused").get_by_role("listitem")
    expect(listed).to_have_count(2)
    expect(listed.nth(0)).to_contain_text(re.compile("u, partition 0.*ticket 7"))
    expect(listed.nth(1)).to_contain_text(re.compile("t-7.*a record is too large"))


def test_an_edit_shows_what_stops_and_takes_the_name(site: Site, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(f"{serve(site.app)}/ui/#/edit/orders")
    topics = page.get_by_label("Topics", exact=True)
    expect(topics).to_have_value("t|u")
    expect(page.get_by_label("Name", exact=True)).to_be_disabled()
    preview = page.locator("form.fields button.main")
    expect(preview).to_be_disabled()
    topics.fill("t")
    preview.click()
    expect(page.get_by_role("alert")).to_contain_text("u (2)")
    assert site.stored("orders").selection.include == "t|u", "a dry run changed the datastream"
    assert violations(page) == []
    page.locator("section:has(#outcome) .act > div > button").click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("u (2)")
    sure = question.locator("button.main")
    expect(sure).to_be_disabled()
    question.get_by_label("Type orders to confirm").fill("orders")
    sure.click()
    expect(page).to_have_title(re.compile("^orders"))
    assert site.stored("orders").selection.include == "t"


def test_a_datastream_is_created_after_its_dry_run(serve: Serve, open_page: OpenPage) -> None:
    site = Site()
    page = open_page(f"{serve(site.app)}/ui/")
    page.get_by_role("link", name="New datastream").first.click()
    filled = {"name": "mine", "owner": "team", "source": "source", "topics": "t"}
    for field, text in {**filled, "destination": "destination", "objective": "800"}.items():
        page.locator(f"#field-{field}").fill(text)
    page.locator("form.fields button.main").click()
    expect(page.locator("#outcome")).to_be_visible()
    assert site.definitions.all().datastreams == ()
    page.locator("section:has(#outcome) .act > div > button").click()
    page.get_by_role("dialog").locator("button.main").click()
    expect(page).to_have_title(re.compile("^mine"))
    stored = site.stored("mine")
    assert (stored.selection.include, stored.metadata["owner"]) == ("t", "team")
    assert stored.objective is not None
    assert stored.objective.milliseconds == 800


def test_positions_objectives_and_placement_are_lines_and_fields(serve: Serve, open_page: OpenPage) -> None:
    site = Site()
    page = open_page(f"{serve(site.app)}/ui/#/edit")
    objectives = "p99 within 2 s over 60 s, 99.5 % over 30 d\np50 within 250 ms over 60 s, 99 % over 7 d"
    filled = {
        "name": "mine",
        "owner": "team",
        "source": "source",
        "topics": "t",
        "destination": "destination",
    }
    more = {"objectives": objectives, "capacity": "200000", "utilisation": "80", "provider": "none"}
    for field, text in {**filled, **more, "positions": "t:0=12\nnonsense"}.items():
        page.locator(f"#field-{field}").fill(text)
    preview = page.locator("form.fields button.main")
    expect(preview).to_be_disabled()
    page.locator("#field-positions").fill("t:0=12\n*:1 = 3")
    preview.click()
    page.locator("section:has(#outcome) .act > div > button").click()
    page.get_by_role("dialog").locator("button.main").click()
    expect(page).to_have_title(re.compile("^mine"))
    read = site.client.get("/v1/datastreams/mine").json()
    assert read["start_positions"] == {"t": {"0": 12}, "*": {"1": 3}}
    assert [one["milliseconds"] for one in read["objectives"]] == [2_000, 250]
    placement = {key: value for key, value in read["placement"].items() if value is not None}
    assert placement == {
        "capacity_bytes_per_second": 200_000,
        "utilisation_percent": 80,
        "load_provider": "none",
    }
    page.goto(f"{page.url.partition('#')[0]}#/edit/mine")
    expect(page.locator("#field-objectives")).to_have_value(objectives)
    expect(page.locator("#field-positions")).to_be_disabled()
    expect(page.locator("#field-positions")).to_have_value("*:1=3\nt:0=12")
    page.locator("#field-objectives").fill("")
    page.locator("#field-provider").fill("")
    page.locator("#field-capacity").fill("learned")
    preview.click()
    page.locator("section:has(#outcome) .act > div > button").click()
    page.get_by_role("dialog").locator("button.main").click()
    expect(page).to_have_title(re.compile("^mine"))
    read = site.client.get("/v1/datastreams/mine").json()
    assert read["objectives"] == []
    assert read["placement"]["load_provider"] is None
    assert read["placement"]["capacity_bytes_per_second"] == "learned"
    assert read["placement"]["utilisation_percent"] == 80


def test_a_loss_that_the_audit_found_is_on_the_page(site: Site, serve: Serve, open_page: OpenPage) -> None:
    fault = AuditFault(3, 1_795_000_000_000, Verdict.MISSING, 5, 1_204, -1)
    orders, partitions = DatastreamName("orders"), tuple(range(60))
    loss = TopicAudit(orders, "t", partitions, None, 0, (fault,), 2, "no leader", late=7)
    other = TopicAudit(DatastreamName("other"), "t", (0,), None, 0, (replace(fault, records=99),), 0, "")
    app = create_app(replace(site.services, audits=lambda: [loss, other]))
    page = open_page(f"{serve(app)}/ui/#/datastreams/orders")
    card = page.get_by_role("region", name="Audit")
    for text in ("t-3", "5 missing", "1204", "no leader", "7"):
        expect(card).to_contain_text(text)
    expect(card).not_to_contain_text("99")
    assert violations(page) == []


@pytest.mark.parametrize("label", ["Delete", "Restart"])
def test_what_destroys_something_asks_for_the_name(
    label: str, site: Site, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve(site.app)}/ui/#/datastreams/orders")
    page.get_by_role("button", name=label).click()
    question = page.get_by_role("dialog")
    expect(question.get_by_role("button", name="Cancel")).to_be_focused()
    sure, name = question.get_by_role("button", name=label), question.get_by_label("Type orders to confirm")
    for wrong in ("", "order", "Orders"):
        name.fill(wrong)
        expect(sure).to_be_disabled()
    name.fill("orders")
    with page.expect_response(re.compile("/v1/datastreams/orders")) as answered:
        sure.click()
    assert answered.value.request.method in ("DELETE", "POST")
    expect(question).to_be_hidden()


def test_moves_of_a_plan_are_one_entry_and_evidence_has_words(
    site: Site, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve(site.app)}/ui/icon.svg")

    def call(name: str, *given: Any) -> Any:
        code = "([name, given]) => import('/ui/views/datastream.js').then((one) => one[name](...given))"
        return page.evaluate(code, [name, list(given)])

    move = {
        "kind": "move",
        "topic": "t",
        "plan_epoch": 4,
        "time_ms": 1,
        "sentence": "two joined",
        "bytes_per_second": 5.0,
    }
    tasks = {"from_task": "o-0", "from_instance": "one", "to_task": "o-0", "to_instance": "two"}
    moves = [{**move, **tasks, "kafka_partition": number, "event_key": str(number)} for number in range(20)]
    other = {**moves[0], "sentence": "it is heavy", "event_key": "x"}
    plan = {**move, "kind": "plan", "topic": "", "event_key": "p"}
    found = call("eventsOf", [plan, *moves, other])
    assert [(one["what"], one["why"], len(one["moves"])) for one in found][1] == (
        "20 partitions",
        "two joined",
        20,
    )
    assert len(found) == 3
    hold = QuotaHold(QuotaOwner.SOURCE, 0.45, 3)
    numbers = {
        **CauseFigures((), 3, holds=(hold,)).numbers(),
        "task_bytes_per_second": 1_250_000,
        "fetch_ms": 900.0,
    }
    said = call("evidenceOf", numbers)
    for figure in (": 45 % of", ": 1.3 MB/s", ": 900 ms"):
        assert any(figure in one for one in said)
    assert not any("_" in one for one in said)
