"""Test POST /v1/datastreams/{name}/restart-from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest
from httpx import Response

from mirror.coordination.stores.cluster_ids import BoundClusters
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.model.datastreams.datastream import Datastream, StartPosition
from mirror.model.datastreams.starts import restart_of
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from tests.builders import DESTINATION
from tests.fakes.site import Site

PATH: Final = "/v1/datastreams/orders"


def restart(site: Site, *, dry_run: bool = False, **body: Any) -> Response:
    found: Response = site.client.post(
        f"{PATH}/restart-from", json={"start": "earliest", **body}, params={"dry_run": dry_run}
    )
    return found


def test_a_restart_starts_each_lane_again_from_there(site: Site) -> None:
    site.create()
    answer = restart(site)
    assert answer.status_code == 200, answer.text
    restarted = restart_of(site.stored("orders"))
    assert (restarted.at_ms > 0, restarted.start.position) == (True, StartPosition.EARLIEST)
    site.tick()
    specs = [one.spec for one in site.follower.workers.lanes.values()]
    assert [one.restart_ms for one in specs] == [restarted.at_ms] * 2
    assert restart(site).status_code == 200
    assert restart_of(site.stored("orders")).at_ms > restarted.at_ms


def test_a_restart_that_would_duplicate_records_is_refused_unless_that_is_allowed(site: Site) -> None:
    site.create()
    site.destination.ranges[TopicPartition("t", 1)] = (3, 10)
    before = site.stored("orders")
    for dry_run in (True, False):
        answer = restart(site, dry_run=dry_run)
        assert (answer.status_code, answer.json()["kind"]) == (409, "IllegalTransition")
        assert "t-1" in answer.json()["detail"]
    assert site.stored("orders") == before
    assert restart(site, allow_duplicates=True).status_code == 200


def test_a_dry_run_shows_what_starts_again_and_writes_nothing(site: Site) -> None:
    site.create()
    before = site.stored("orders")
    answer = restart(site, dry_run=True)
    assert answer.status_code == 200, answer.text
    assert sorted(one["partition"] for one in answer.json()["restarts"]) == ["t-0", "t-1"]
    assert site.stored("orders") == before


def test_a_restart_accepts_the_cluster_that_answers_now(site: Site) -> None:
    site.create()
    written = BoundClusters(site.session)
    site.destination.identity = "rebuilt"
    assert written.get(DESTINATION) != "rebuilt"
    assert restart(site).status_code == 200
    assert written.get(DESTINATION) == "rebuilt"


def test_a_restart_that_fails_accepts_no_cluster(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.create()
    written, definitions = BoundClusters(site.session), DefinitionStore(site.session)
    before = written.get(DESTINATION)

    def changed_meanwhile(datastream: Datastream) -> dict[ClusterRef, str]:
        stored = definitions.get(datastream.name)
        definitions.replace(stored, replace(stored.datastream, metadata={"note": "n"}))
        return {DESTINATION: "rebuilt"}

    monkeypatch.setattr(site.services.restarts, "changed", changed_meanwhile)
    assert restart(site).status_code == 409
    assert written.get(DESTINATION) == before


@pytest.mark.parametrize("start", ["latest", "committed", "committed-or-latest", "never"])
def test_a_start_that_would_leave_records_out_is_refused(site: Site, start: str) -> None:
    site.create()
    assert restart(site, start=start).status_code in (400, 422)


def test_the_restart_stays_when_the_definition_changes_and_is_nobodys_to_set(site: Site) -> None:
    site.create()
    restart(site, start="2026-01-01T00:00:00Z")
    restarted = restart_of(site.stored("orders"))
    assert restarted.start.at_ms == 1_767_225_600_000
    everything = {"If-Match": "*"}
    changed = site.client.patch(PATH, json={"metadata": {"note": "n"}}, headers=everything)
    assert changed.status_code == 200, changed.text
    assert restart_of(site.stored("orders")) == restarted
    given = {"metadata": {"system.restart": "1 earliest"}}
    assert site.client.patch(PATH, json=given, headers=everything).status_code == 422
