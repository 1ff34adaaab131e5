"""Test /v1/datastreams/{name}/translation and …/translation/groups/{group}: no guesses, no commits."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import pytest
from httpx import Response

from api.fleet.reads import AGE
from api.http.slow_calls import MOST_AT_ONCE
from api.resources.partitions.translations import LONGEST_GROUP
from mirror.errors import HeadraceError, NotAuthorized, NothingStored, TimedOut, Unreachable
from mirror.jobs.translate_job import AHEAD, GONE, NOT_MIRRORED, NOTHING_YET, UNCHANGED
from mirror.lane.ledger import OffsetClass
from mirror.model.bounds import LARGEST_OFFSET
from mirror.model.topics import TopicPartition
from tests.builders import a_key, a_progress
from tests.fakes.site import Site

PATH: Final = "/v1/datastreams/orders/translation"
COPY: Final = {"cluster": "destination", "name": "copy.*"}
GROUP: Final = "billing"
BACK: Final[dict[str, Any]] = {"direction": "to-source"}
MAP: Final = (
    (OffsetClass.MIRRORED, 5),  # 10 to 14 are at 100 to 104
    (OffsetClass.FILTERED, 2),
    (OffsetClass.MIRRORED, 3),  # 17 to 19 are at 105 to 107
)


@pytest.fixture
def copied(site: Site) -> Site:
    """Return a site that has copied partition 0 and stored nothing for partition 1."""
    site.create(destination=COPY)
    site.progress = {a_key("t-0"): a_progress(*MAP, start=10, target_topic="copy.t")}
    return site


def ask(site: Site, topic: str = "t", partition: int = 0, offset: int = 12, **more: Any) -> Response:
    return site.client.get(PATH, params={"topic": topic, "partition": partition, "offset": offset, **more})


def of_group(site: Site, group: str = GROUP, **more: Any) -> Response:
    return site.client.get(f"{PATH}/groups/{quote(group, safe='')}", params=more)


@pytest.mark.parametrize(
    ("offset", "to_offset", "precision"),
    [
        (12, 102, "exact"),
        (15, 105, "next"),
        (19, 107, "exact"),
        (20, 108, "end"),
        (LARGEST_OFFSET, 108, "end"),
        (9, 100, "before"),
        (0, 100, "before"),
    ],
)
def test_an_offset_is_at_the_destination_where_the_map_says(
    copied: Site, offset: int, to_offset: int, precision: str
) -> None:
    answer = ask(copied, offset=offset)
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "topic": "t",
            "partition": 0,
            "offset": offset,
            "to_topic": "copy.t",
            "to_partition": 0,
            "to_offset": to_offset,
            "precision": precision,
        },
    )


@pytest.mark.parametrize(
    ("offset", "to_offset", "precision"),
    [(100, 10, "exact"), (105, 17, "exact"), (108, 20, "end"), (3, 10, "before")],
)
def test_the_way_back_is_asked_of_the_destination_topic(
    copied: Site, offset: int, to_offset: int, precision: str
) -> None:
    found = ask(copied, "copy.t", offset=offset, **BACK).json()
    assert (found["to_topic"], found["to_offset"], found["precision"]) == ("t", to_offset, precision)
    assert ask(copied, "t", offset=offset, **BACK).status_code == 404


def test_a_partition_that_is_not_mirrored_is_not_found(copied: Site) -> None:
    copied.progress |= {
        a_key("other-0"): a_progress(*MAP, target_topic="copy.other"),
        a_key("t-3"): a_progress(*MAP, target_topic="former.t"),
        a_key("t-4", "others"): a_progress(*MAP, target_topic="copy.t"),
    }
    for place in (("other", 0), ("t", 2), ("t", 3), ("t", 4), ("t", 2**31 - 1), ("copy.t", 0)):
        answer = ask(copied, *place)
        assert (answer.status_code, answer.json()["kind"]) == (404, "NotFound"), place
        topic, number = place
        assert f"{topic}-{number}" in answer.json()["detail"]
        assert "orders" in answer.json()["detail"]
    assert copied.client.get(PATH.replace("orders", "nobody"), params=QUERY).status_code == 404


def test_what_is_planned_and_has_stored_nothing_is_not_known_yet(copied: Site) -> None:
    for place, more in ((("t", 1), {}), (("copy.t", 1), BACK)):
        answer = ask(copied, *place, **more)
        assert (answer.status_code, answer.json()["kind"]) == (409, "NothingStored")
        assert NOTHING_YET in answer.json()["detail"]
        assert answer.json()["advice"]
    copied.progress = {a_key("t-0"): a_progress((OffsetClass.LOST, 3), target_topic="copy.t")}
    assert ask(copied).status_code == 409
    copied.before_progress = lambda: fail(NothingStored("nothing is stored under orders"))
    assert (ask(copied).status_code, ask(copied, partition=2).status_code) == (409, 404)


@pytest.mark.parametrize(
    ("more", "place", "offset", "expected"),
    [
        ({}, "t", 10, (100, "end")),
        ({}, "t", 50, (100, "end")),
        (BACK, "copy.t", 99, (13, "end")),
    ],
)
def test_what_has_mirrored_nothing_is_translated_to_what_will_be_first(
    copied: Site, more: dict[str, Any], place: str, offset: int, expected: tuple[int, str]
) -> None:
    lost = a_progress((OffsetClass.LOST, 3), start=10, target_topic="copy.t")
    copied.first_offsets = {a_key("t-0"): 100}
    copied.progress = {a_key("t-0"): lost}
    answer = ask(copied, place, offset=offset, **more)
    assert (answer.status_code, answer.json().get("to_offset"), answer.json().get("precision")) == (
        200,
        *expected,
    )


def test_a_map_of_a_topic_that_was_deleted_translates_nothing(copied: Site) -> None:
    copied.progress = {a_key("t-0"): a_progress(*MAP, target_topic="copy.t", target_id=b"old")}
    copied.source.committed[GROUP, TopicPartition("t", 0)] = 12
    assert ask(copied).status_code == 200
    for now in (b"new", None):
        copied.topic_ids = {"copy.t": now}
        answer = ask(copied)
        assert (answer.status_code, GONE in answer.json()["detail"]) == (409, True)
        (one,) = of_group(copied).json()["untranslated"]
        assert one == {"topic": "t", "partition": 0, "offset": 12, "reason": GONE}
    copied.topic_ids = {"copy.t": b"old"}
    assert ask(copied).status_code == 200


QUERY: Final[dict[str, Any]] = {"topic": "t", "partition": 0, "offset": 12}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("offset", -1),
        ("offset", LARGEST_OFFSET + 1),
        ("offset", "9" * 5_000),
        ("offset", "1.5"),
        ("offset", ""),
        ("partition", -1),
        ("partition", 2**31),
        ("topic", ""),
        ("topic", "a/b"),
        ("topic", "t\n"),
        ("topic", "x" * 250),
        ("topic", "\x00"),
        ("direction", "sideways"),
    ],
)
def test_a_parameter_out_of_its_bounds_is_named(copied: Site, field: str, value: object) -> None:
    answer = copied.client.get(PATH, params=QUERY | {field: value})
    assert answer.status_code == 400
    assert field in answer.json()["detail"]


@pytest.mark.parametrize("field", sorted(QUERY))
def test_a_parameter_that_is_missing_is_named(copied: Site, field: str) -> None:
    answer = copied.client.get(PATH, params={name: one for name, one in QUERY.items() if name != field})
    assert (answer.status_code, field in answer.json()["detail"]) == (400, True)


def test_all_positions_of_a_group_are_translated_and_none_is_committed(copied: Site) -> None:
    copied.source.committed |= {
        (GROUP, TopicPartition("t", 0)): 12,
        (GROUP, TopicPartition("t", 1)): 7,
        (GROUP, TopicPartition("t", 2)): 8,
        (GROUP, TopicPartition("elsewhere", 0)): 3,
        ("others", TopicPartition("t", 0)): 18,
    }
    before = dict(copied.source.committed)
    found = of_group(copied).json()
    assert (found["name"], found["group"], found["direction"]) == ("orders", GROUP, "to-destination")
    assert found["positions"] == [
        {
            "topic": "t",
            "partition": 0,
            "offset": 12,
            "to_topic": "copy.t",
            "to_partition": 0,
            "to_offset": 102,
            "precision": "exact",
            "present": None,
            "left_alone": "",
        }
    ]
    assert found["untranslated"] == [
        {"topic": "t", "partition": 1, "offset": 7, "reason": NOTHING_YET},
        {"topic": "t", "partition": 2, "offset": 8, "reason": NOT_MIRRORED},
    ]
    assert (copied.source.committed, copied.destination.committed) == (before, {})
    assert copied.client.post(f"{PATH}/groups/{GROUP}", json={}).status_code == 405


@pytest.mark.parametrize(("present", "left_alone"), [(101, ""), (102, UNCHANGED), (103, AHEAD)])
def test_what_the_group_has_there_already_is_beside_it(copied: Site, present: int, left_alone: str) -> None:
    copied.source.committed[GROUP, TopicPartition("t", 0)] = 12
    copied.destination.committed[GROUP, TopicPartition("copy.t", 0)] = present
    (one,) = of_group(copied).json()["positions"]
    assert (one["to_offset"], one["present"], one["left_alone"]) == (102, present, left_alone)


def test_a_group_goes_back(copied: Site) -> None:
    copied.destination.committed |= {
        (GROUP, TopicPartition("copy.t", 0)): 106,
        (GROUP, TopicPartition("t", 0)): 1,
    }
    copied.source.committed[GROUP, TopicPartition("t", 0)] = 11
    found = of_group(copied, **BACK).json()
    (one,) = found["positions"]
    assert (one["topic"], one["to_topic"], one["to_offset"], one["present"]) == ("copy.t", "t", 18, 11)
    assert found["untranslated"] == []


def test_a_group_that_has_committed_nothing_is_not_found(copied: Site) -> None:
    copied.source.committed[GROUP, TopicPartition("t", 0)] = 12
    for more, side in (({"group": "nobody"}, "source"), (BACK, "destination")):
        answer = of_group(copied, **more)
        assert (answer.status_code, answer.json()["kind"]) == (404, "NotFound")
        assert f" on {side}" in answer.json()["detail"]


@pytest.mark.parametrize(
    "group", ["a/b", "../plan", "/", "%2F", "a b", "ü\u202e", "\x1b[31m", "a?b#c&d=e", "g" * LONGEST_GROUP]
)
def test_a_group_may_have_any_name(copied: Site, group: str) -> None:
    copied.source.committed[group, TopicPartition("t", 0)] = 12
    answer = of_group(copied, group)
    assert (answer.status_code, answer.json()["group"]) == (200, group)


@pytest.mark.parametrize("group", ["", "g" * (LONGEST_GROUP + 1)])
def test_what_can_be_no_group_is_refused(copied: Site, group: str) -> None:
    assert of_group(copied, group).status_code == 400


@pytest.mark.parametrize(
    ("error", "of_source", "of_destination"),
    [
        (Unreachable("source is away"), 503, 503),
        (TimedOut("too late"), 504, 503),
        (NotAuthorized("not you"), 401, 401),
    ],
)
def test_clusters_that_do_not_answer_are_told_of(
    copied: Site, error: HeadraceError, of_source: int, of_destination: int
) -> None:
    copied.source.failure = error
    answer = of_group(copied)
    assert (answer.status_code, answer.json()["detail"]) == (of_source, error.message)
    assert ("Retry-After" in answer.headers) == (of_source == 503)
    assert ask(copied).status_code == 200, "a single offset needs only the destination"
    copied.before_progress = lambda: fail(error)
    assert ask(copied).status_code == of_destination


def test_few_translations_are_under_way_at_once(copied: Site) -> None:
    copied.app.state.slow_calls._slots._all = MOST_AT_ONCE
    assert [answer.status_code for answer in (ask(copied), of_group(copied))] == [503, 503]


def test_while_zookeeper_is_away_offsets_are_translated(copied: Site) -> None:
    for one in ("/v1/datastreams", "/v1/plan"):
        assert copied.client.get(one).status_code == 200
    copied.session.disconnect()
    copied.clock.advance(7.5)
    answer = ask(copied)
    assert (answer.status_code, answer.headers[AGE]) == (200, "7")
    assert ask(copied, partition=1).status_code == 409


def fail(error: HeadraceError) -> None:
    raise error
