"""Test /v1/datastreams/{name}/consumer-groups."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import pytest
from httpx import Response

from mirror.jobs.groups.decision import FollowReason, SyncedPosition
from mirror.jobs.groups.record import (
    FollowedGroup,
    FollowedPosition,
    GroupKeys,
    write_group,
    write_round,
)
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.topics import TopicPartition
from tests.fakes.site import Site

KEYS: Final = GroupKeys(GroupName("orders"), DatastreamName("orders"))
PATH: Final = "/v1/datastreams/orders/consumer-groups"
R = FollowReason


def a_position(number: int, reason: FollowReason, target: int | None = 7) -> FollowedPosition:
    return FollowedPosition(5, target, TopicPartition("copy.t", number), reason, True, SyncedPosition(5, 7))


def store(site: Site, group: FollowedGroup) -> None:
    site.followed[KEYS.of(group.group)] = write_group(group)


def with_groups(site: Site) -> Site:
    """Store a group that follows, one with members at the destination, and one that was excluded since."""
    site.create(groups={"include": ".*", "exclude": "old"})
    place = TopicPartition("t", 0)
    store(site, FollowedGroup("billing", "consumer", positions={place: a_position(0, R.CURRENT)}))
    positions = {place: a_position(0, R.MEMBERS, None), TopicPartition("t", 1): a_position(1, R.CURRENT)}
    store(site, FollowedGroup("audit/eu", "classic", positions=positions))
    store(site, FollowedGroup("old", "classic", positions={place: a_position(0, R.CURRENT)}))
    site.followed[KEYS.of_round] = write_round(site.clock.now_ms() - 1_500)
    return site


@pytest.fixture
def followed(site: Site) -> Site:
    return with_groups(site)


def of_group(site: Site, group: str) -> Response:
    return site.client.get(f"{PATH}/{quote(group, safe='')}")


def test_selected_groups_are_listed_with_the_age_of_their_state(followed: Site) -> None:
    found = followed.client.get(PATH).json()
    assert [(one["group"], one["follows"], one["reasons"]) for one in found["groups"]] == [
        ("audit/eu", False, ["members there"]),
        ("billing", True, []),
    ]
    assert (found["age_ms"], found["unreadable"]) == (1_500, 0)
    (one,) = found["groups"][1]["positions"]
    assert (one["topic"], one["offset"], one["to_topic"], one["to_offset"]) == ("t", 5, "copy.t", 7)


def test_nothing_stored_is_an_empty_list_without_an_age(site: Site) -> None:
    site.create(groups={"include": ".*"})
    found = site.client.get(PATH).json()
    assert (found["groups"], found["round_ms"], found["age_ms"]) == ([], None, None)
    assert of_group(site, "billing").status_code == 404


def test_a_damaged_record_is_counted_and_hides_no_other_group(followed: Site) -> None:
    followed.followed[KEYS.of("bad")] = b"{"
    found = followed.client.get(PATH).json()
    assert (found["unreadable"], len(found["groups"])) == (1, 2)


def test_a_group_is_explained(followed: Site) -> None:
    found = of_group(followed, "audit/eu").json()
    assert [(one["partition"], one["follows"], one["reason"]) for one in found["positions"]] == [
        (0, False, "members there"),
        (1, True, "current"),
    ]
    excluded = of_group(followed, "old").json()
    assert (excluded["follows"], excluded["reasons"]) == (False, ["excluded"])
    assert of_group(followed, "none").status_code == 404


def test_a_share_group_that_follows_may_receive_records_again(followed: Site) -> None:
    place = TopicPartition("t", 0)
    store(followed, FollowedGroup("shared", "share", positions={place: a_position(0, R.CURRENT)}))
    found = of_group(followed, "shared").json()
    assert (found["follows"], found["may_redeliver"]) == (True, True)
    assert not of_group(followed, "billing").json()["may_redeliver"]


def test_a_group_level_reason_holds_for_every_position(followed: Site) -> None:
    place = TopicPartition("t", 0)
    state = FollowedGroup(
        "billing", "classic", R.NO_RIGHTS, "not authorized", {place: a_position(0, R.CURRENT)}, 5
    )
    store(followed, state)
    found = of_group(followed, "billing").json()
    assert (found["reasons"], found["detail"]) == (["no rights"], "not authorized")
    assert [one["follows"] for one in found["positions"]] == [False]
