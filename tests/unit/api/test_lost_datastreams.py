"""Test /v1/lost-datastreams: listing, restoring and forgetting definitions that ZooKeeper has lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from httpx import Response

from mirror.coordination.datastream_records.loss_store import LostStore
from mirror.coordination.stores import znodes
from mirror.coordination.stores.events import EventLog
from mirror.errors import Unreachable
from mirror.lane.ledger import Ledger
from mirror.lane.offset_map import OffsetMap
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.datastream import DatastreamStatus, StartPosition
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicDescription, TopicPartition
from tests.fakes.site import Site
from tests.unit.api.guarded import Guarded

LOST: Final = "/v1/lost-datastreams"


def wipe(site: Site) -> None:
    """Delete the definitions, as if an older backup had been restored."""
    for folder in (znodes.DATASTREAMS, znodes.CREATIONS, znodes.DELETED):
        site.server.session().delete_tree(folder)
    site.tick()


def lost(site: Site) -> list[str]:
    return [one["name"] for one in site.client.get(LOST).json()]


def restore(
    site: Site, name: str = "orders", headers: dict[str, str] | None = None, **query: Any
) -> Response:
    found: Response = site.client.post(f"{LOST}/{name}/restore", json={}, params=query, headers=headers or {})
    return found


def forget(site: Site, name: str = "orders", headers: dict[str, str] | None = None, **query: Any) -> Response:
    found: Response = site.client.delete(f"{LOST}/{name}", params=query, headers=headers or {})
    return found


def lanes(site: Site) -> list[str]:
    return sorted(str(key.partition) for key in site.follower.workers.lanes)


@pytest.fixture
def wiped(site: Site) -> Site:
    """Return a service that has lost its only datastream."""
    site.create()
    wipe(site)
    return site


def test_nothing_is_lost_at_first_and_after_a_deletion(site: Site) -> None:
    site.create()
    assert lost(site) == []
    site.client.delete("/v1/datastreams/orders")
    site.tick(4)
    assert site.client.get("/v1/datastreams/orders").status_code == 404
    assert lost(site) == []


def test_what_is_lost_is_listed_without_secrets(wiped: Site) -> None:
    assert lost(wiped) == ["orders"]
    one = wiped.client.get(f"{LOST}/orders")
    assert (one.status_code, one.json()["source"]["topics"]) == (200, "t")
    assert one.headers["ETag"]
    assert wiped.client.get(f"{LOST}/other").json()["kind"] == "NotFound"


def test_a_restored_datastream_is_as_it_was_and_runs(site: Site) -> None:
    site.create()
    site.client.post(
        "/v1/datastreams/orders/pause-partitions", json={"partitions": {"t": "1"}, "reason": "x"}
    )
    site.tick()
    before = site.stored("orders")
    wipe(site)
    assert lanes(site) == []
    answer = restore(site)
    assert answer.status_code == 200, answer.text
    site.tick(4)
    assert site.stored("orders") == before
    assert lanes(site) == ["t-0"]
    assert lost(site) == []
    assert site.health.is_well
    assert any("lost" in one.sentence for one in EventLog(site.session).newest(10))


def test_a_service_whose_whole_tree_was_deleted_continues_with_what_is_restored(site: Site) -> None:
    site.create()
    wipe_all(site)
    assert lanes(site) == []
    assert restore(site).status_code == 200
    site.tick(6)
    assert lanes(site) == ["t-0", "t-1"]
    assert site.health.is_well


def wipe_all(site: Site) -> None:
    """Delete all data of the service."""
    for folder in site.server.session().children(""):
        site.server.session().delete_tree(f"/{folder}")
    site.tick(4)


@pytest.mark.parametrize("has_progress", [True, False])
def test_a_datastream_that_may_not_adopt_topics_writes_what_it_has_written(
    site: Site, has_progress: bool
) -> None:
    site.create(destination={"cluster": "destination", "adopt": False})
    if has_progress:
        key = LaneKey(GroupName("orders"), TopicPartition("t", 0))
        site.progress[key] = LaneProgress(Ledger(10), OffsetMap(), target_topic="t")
    wipe_all(site)
    assert restore(site).status_code == 200
    site.follower.lose()
    site.follower.run_loop()
    again = Site(site.server, "two")
    again.destination.create(TopicDescription("t", 2))
    again.tick(6)
    assert bool(lanes(again)) == has_progress


def test_partitions_of_latest_that_have_no_checkpoint_begin_at_their_first_record(site: Site) -> None:
    site.create(start="latest")
    assert {one.spec.start for one in site.follower.workers.lanes.values()} == {StartPosition.LATEST}
    wipe_all(site)
    restore(site)
    site.tick(6)
    assert {one.spec.start for one in site.follower.workers.lanes.values()} == {StartPosition.EARLIEST}


def test_a_destination_that_does_not_answer_is_needed_for_that_alone(site: Site) -> None:
    site.create("plain", destination={"cluster": "destination", "name": "plain.*"})
    site.create("strict", destination={"cluster": "destination", "name": "strict.*", "adopt": False})
    wipe_all(site)

    def away() -> None:
        raise Unreachable("the destination is away")

    site.before_progress = away
    assert restore(site, "plain").status_code == 200
    assert restore(site, "strict").status_code == 503
    assert lost(site) == ["strict"]


@pytest.mark.parametrize(("action", "status"), [("pause", "PAUSED"), ("stop", "STOPPED")])
def test_a_halted_datastream_is_halted_again(site: Site, action: str, status: str) -> None:
    site.create()
    site.client.post(f"/v1/datastreams/orders/{action}", json={"reason": "why"})
    site.tick(4)
    before = site.stored("orders")
    wipe(site)
    assert restore(site).json()["status"] == status
    site.tick(4)
    assert site.stored("orders") == before


def test_a_definition_that_was_made_again_is_not_overwritten(wiped: Site) -> None:
    wiped.create(start="latest")
    for answer in (restore(wiped), forget(wiped), wiped.client.get(f"{LOST}/orders")):
        assert (answer.status_code, answer.json()["kind"]) == (409, "AlreadyExists")
    assert str(wiped.stored("orders").start) == "latest"
    assert lost(wiped) == []


def test_a_creation_that_comes_first_wins(wiped: Site) -> None:
    """The lost definition is still stored, because no instance has read the tree since."""
    body = {"name": "orders", "source": {"cluster": "source", "topics": "other"}, "owner": "tests"}
    assert wiped.client.post("/v1/datastreams", json=body).status_code == 201
    assert [one.datastream.name for one in LostStore(wiped.session).all()] == ["orders"]
    assert restore(wiped).status_code == 409
    assert wiped.stored("orders").selection.include == "other"


def test_a_forgotten_one_is_gone_for_good(wiped: Site) -> None:
    answer = forget(wiped)
    assert (answer.status_code, answer.json()["name"]) == (200, "orders")
    wiped.tick(4)
    assert lost(wiped) == []
    assert wiped.health.is_well
    for later in (restore(wiped), forget(wiped)):
        assert (later.status_code, later.json()["kind"]) == (404, "NotFound")


def test_dry_runs_write_nothing(wiped: Site) -> None:
    shown = restore(wiped, dry_run=True)
    assert [one["partition"] for one in shown.json()["starts"]] == ["t-0", "t-1"]
    assert forget(wiped, dry_run=True).json()["name"] == "orders"
    assert lost(wiped) == ["orders"]


def test_a_version_that_was_not_read_is_refused(wiped: Site) -> None:
    tag = wiped.client.get(f"{LOST}/orders").headers["ETag"]
    other = {"If-Match": '"1-1"'}
    for dry_run in (True, False):
        assert restore(wiped, headers=other, dry_run=dry_run).status_code == 412
        assert forget(wiped, headers=other, dry_run=dry_run).status_code == 412
    assert restore(wiped, headers={"If-Match": tag}).status_code == 200


def test_a_restore_is_admitted_like_a_creation(wiped: Site) -> None:
    """Another datastream has started to write to the same destination topic."""
    wiped.create("rival")
    answer = restore(wiped)
    assert (answer.status_code, answer.json()["kind"]) == (400, "InvalidRequest"), answer.text
    assert lost(wiped) == ["orders"]


def test_an_end_is_refused(wiped: Site) -> None:
    assert wiped.client.post(f"{LOST}/orders/restore", json={"for_seconds": 5}).status_code == 422


def test_it_takes_the_right_to_every_datastream(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path)
    wipe(guarded.site)
    for name in ("viewer", "owner"):
        client = guarded.as_(name)
        assert client.post(f"{LOST}/mine/restore", json={}).status_code == 403
        assert client.delete(f"{LOST}/mine").status_code == 403
    assert [one["name"] for one in guarded.as_("viewer").get(LOST).json()] == ["mine", "theirs"]
    operator = guarded.as_("operator")
    assert operator.post(f"{LOST}/mine/restore", json={}).status_code == 200
    assert operator.delete(f"{LOST}/theirs").status_code == 200
    assert guarded.site.stored("mine").status is DatastreamStatus.INITIALIZING
