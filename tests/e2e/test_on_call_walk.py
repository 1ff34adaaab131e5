"""The walk of an engineer on call: eight changes and faults on real servers, one after the other.

Alerts of the monitor and of a real Prometheus with the shipped rules go through a real Alertmanager. A
browser shows the web pages during each step. Faults and servers are those of `bench service_histories`. Each
step prints its row: alerts, causes, seconds to recovery, entries of the timeline.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser

from bench.service.histories import observe, row_of
from bench.service.rig.histories.faults import Fault, wanted
from bench.service.rig.histories.pages import Page, Pages, receiver
from bench.service.rig.histories.rows import HEADER
from bench.service.rig.histories.site import DATASTREAMS, Site, site
from monitor.causes.diagnosis import Cause
from tests.alertmanagers import running_alertmanager
from tests.browser.chromium import running_chromium
from tests.browser.own_thread import in_browser_thread
from tests.browser.watching import Badge, Screen, screen
from tests.patience import eventually
from tests.prometheus import rule_names, running_prometheus, scrape, sees_metrics

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]
QUIET: Final = "creation pause typo"
"""Steps without an alert, an incident, or a critical state on the pages."""
FAULTS: Final = "our-quota dead-source-inside broker-quota dead-destination killed-follower"
MINUTE_SECONDS: Final = 10.0
"""Seconds for each minute of `for` in the shipped rules: the waits of the monitor are shortened, too."""
MOST_ENTRIES: Final = 10
NOTICED: Final = ("critical", "warning")


@dataclass
class Walk:
    """The running service. `rules`: alerts of Prometheus; alerts of the monitor are in `site.pages`."""

    site: Site
    rules: Pages
    targets: Path
    browser: Browser

    @contextmanager
    def watched(self) -> Iterator[Screen]:
        """Show the pages of the leader within the context."""
        self.scrape()
        with screen(self.browser, self.site.leader().address) as shown:
            yield shown
        self.scrape()

    def scrape(self) -> None:
        """Let Prometheus read the metrics of all instances, which have new addresses after a restart."""
        scrape(self.targets, [one.address for one in self.site.instances.values() if one.address])

    def alerts(self, began: float) -> list[Page]:
        """Return critical and warning alerts that both senders raised since `began` (epoch seconds)."""
        both = [*self.site.pages.since(began), *self.rules.since(began)]
        return [one for one in both if one.is_firing and one.severity in NOTICED]

    def pages(self, began: float) -> list[str]:
        """Return the names of the critical alerts among these."""
        return [one.name for one in self.alerts(began) if one.is_critical]

    def firing(self) -> set[tuple[str, str]]:
        """Return the critical alerts that fire now."""
        last = {(one.name, one.datastream): one for one in [*self.site.pages.found, *self.rules.found]}
        return {key for key, page in last.items() if page.is_critical}


def configuration(monitor_url: str, rules_url: str) -> str:
    """Return an Alertmanager configuration that sends each alert alone, to the address of its sender."""
    by_rule = {"receiver": "rules", "matchers": [f"alertname =~ {'|'.join(rule_names())}"]}
    route = {"group_by": ["..."], "group_wait": "0s", "group_interval": "1s", "repeat_interval": "1h"}
    hooks = {"monitor": monitor_url, "rules": rules_url}
    receivers = [
        {"name": name, "webhook_configs": [{"url": url, "send_resolved": True}]}
        for name, url in hooks.items()
    ]
    return json.dumps(
        {"route": {"receiver": "monitor", **route, "routes": [by_rule]}, "receivers": receivers}
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    running = ExitStack()
    yield in_browser_thread(lambda: running.enter_context(running_chromium()))
    in_browser_thread(running.close)


@pytest.fixture(scope="module")
def walk(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    folder = tmp_path_factory.mktemp("walk")
    with ExitStack() as stack:
        url, rules = stack.enter_context(receiver())
        called = ""

        def by_alertmanager(inner: ExitStack, monitor_url: str) -> dict[str, str]:
            nonlocal called
            called = inner.enter_context(running_alertmanager(folder, configuration(monitor_url, url)))
            key = "MONITOR__ALERTS__ALERTMANAGERS__REAL__"
            return {f"{key}URL": called, f"{key}REFRESH_SECONDS": "2"}

        running = Walk(stack.enter_context(site(by_alertmanager)), rules, folder / "targets.json", browser)
        running.scrape()
        seen = stack.enter_context(running_prometheus(folder, called, running.targets, MINUTE_SECONDS))
        eventually(lambda: sees_metrics(seen), "Prometheus scrapes")
        yield running


def timelines(incidents: Sequence[Mapping[str, Any]]) -> list[list[tuple[str, str]]]:
    """Return the entries of each timeline."""
    return [[(entry["phase"], entry["text"]) for entry in one["timeline"]] for one in incidents]


def is_well(badges: list[Badge]) -> bool:
    """Return whether the overview shows all datastreams as healthy."""
    return {one.datastream for one in badges} == set(DATASTREAMS) and all(
        one.tone == "good" for one in badges
    )


@pytest.mark.parametrize("fault", wanted(QUIET), ids=lambda fault: fault.name)
def test_a_change_pages_nobody(fault: Fault, walk: Walk) -> None:
    with walk.watched() as shown, shown.recorded() as badges:
        seen, _ = observe(walk.site, fault)
        eventually(lambda: is_well(shown.badges()), "the overview is healthy")
    print("\n", dict(zip(HEADER, row_of(fault, seen), strict=True)))
    assert walk.alerts(seen.began) == []
    assert seen.incidents == []
    assert [one for one in badges if one.tone == "bad"] == []
    assert seen.unrest == ""


@pytest.mark.parametrize("fault", wanted(FAULTS), ids=lambda fault: fault.name)
def test_a_fault_is_one_page_with_its_cause_until_it_has_ended(fault: Fault, walk: Walk) -> None:
    with walk.watched() as shown, shown.recorded() as badges:
        seen, _ = observe(walk.site, fault)
        eventually(lambda: is_well(shown.badges()), "the overview is healthy")
        eventually(lambda: agrees(shown, seen.incidents), "the page of incidents agrees")
    print("\n", dict(zip(HEADER, row_of(fault, seen), strict=True)))
    assert len(walk.pages(seen.began)) <= fault.pages, walk.pages(seen.began)
    assert {one["cause"] for one in seen.incidents} <= set(map(str, fault.causes))
    assert {one.why for one in badges if one.why in set(map(str, Cause))} <= set(map(str, fault.causes))
    for entries in timelines(seen.incidents):
        assert len(entries) == len(set(entries)) <= MOST_ENTRIES
    assert seen.unrest == ""
    eventually(lambda: not walk.firing(), "all pages have ended")


def agrees(shown: Screen, incidents: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the page shows these incidents as closed, with their causes and timelines."""
    rows = shown.incidents()
    return all(
        any(
            row.datastream == one["datastream"]
            and row.state == "closed"
            and one["cause"] in row.text
            and row.entries == len(one["timeline"])
            for row in rows
        )
        for one in incidents
    )
