"""View models of the pages, run in the browser as separate modules."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from api.resources.advice import AdviceAnswer
from api.resources.lanes import WindowAnswer
from api.resources.overview import DatastreamGlance, OverviewAnswer
from api.resources.partitions.histories import LoadHistoryAnswer
from api.resources.usage import UsageAnswer
from mirror.model.datastreams.lanes import WindowLimit
from tests.browser.served import served
from tests.fakes.site import Site

NOW = 1_700_000_000_000
UNITS = json.loads((Path(__file__).parents[1] / "data/units.json").read_text(encoding="utf-8"))
"""Units, which are the same in sentences of the service and in commands."""


@pytest.fixture(scope="module")
def page(chromium: Browser) -> Iterator[Page]:
    """Return a page at the icon, where only the scripts of a test run."""
    with served(Site().app) as address:
        page = chromium.new_page()
        page.goto(f"{address}/ui/icon.svg")
        yield page
        page.close()


def call(page: Page, module: str, name: str, *given: Any) -> Any:
    """Return the result of a function of a module."""
    code = "([module, name, given]) => import(`/ui/${module}.js`).then((one) => one[name](...given))"
    return page.evaluate(code, [module, name, list(given)])


def a_glance(**more: Any) -> dict[str, Any]:
    """Return a healthy datastream."""
    values: dict[str, Any] = {
        **dict.fromkeys(DatastreamGlance.model_fields),
        **{
            "name": "orders",
            "group": "orders",
            "owner": "team",
            "status": "READY",
            "problem": "",
            "halt": "",
        },
        **{
            "source": "source",
            "destination": "destination",
            "is_set_aside": False,
            "worst": "",
            "states": {},
        },
        **{"objective_ms": 2_500, "percentile": 99.0, "tasks": 3, "required_tasks": 3, "partitions": 36},
        **{
            "not_copied": 0,
            "bytes_per_second": 1_250_000.0,
            "lag_records": 12,
            "oldest_ms": 40,
            "at_least_ms": 40,
            "counted_ms": 40,
        },
        **{"offending": 0, "unplaced": 0, "overloaded": 0, "fullest_bytes_per_second": 100.0},
        "planned_ms": NOW - 236_000,
        "usable_bytes_per_second": 240_000,
        **more,
    }
    return DatastreamGlance.model_validate(values).model_dump(mode="json")


def an_overview(*datastreams: dict[str, Any], **more: Any) -> dict[str, Any]:
    values = {
        **{"instances": 2, "silent_instances": [], "is_complete": True, "knows_incidents": True, "epoch": 5},
        **{"datastreams": list(datastreams), **more},
    }
    return OverviewAnswer.model_validate(values).model_dump(mode="json")


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        *(("rate", value, text) for value, text in UNITS["rate"]),
        *(("duration", value if value is None else value * 1_000, text) for value, text in UNITS["duration"]),
        ("count", 200_000, "200,000"),
        ("count", None, "unknown"),
        ("percent", 0.034, "3.4 %"),
        ("percent", 1.5, "150 %"),
        ("percent", None, "unknown"),
    ],
)
def test_numbers_have_units_and_what_is_not_known_is_unknown(
    page: Page, function: str, value: float | None, text: str
) -> None:
    assert call(page, "lib/format", function, value) == text


def test_moments_are_told_by_their_distance(page: Page) -> None:
    said = [call(page, "lib/format", "ago", NOW + add, NOW) for add in (0, -90_000, 3_600_000)]
    assert said == ["now", "90 s ago", "in 60 min"]
    assert call(page, "lib/format", "ago", None, NOW) == "unknown"


def an_incident(**more: Any) -> dict[str, Any]:
    return {"id": "i-1", "opened_ms": 1, "cause": "quota", "is_late": True, "closing_ms": None, **more}


@pytest.mark.parametrize(
    ("more", "tone", "noun"),
    [
        ({"closed_ms": None}, "bad", "open"),
        ({"closed_ms": None, "closing_ms": NOW}, "warn", "recovered"),
        ({"closed_ms": NOW, "closing_ms": None}, "idle", "closed"),
    ],
)
def test_an_incident_is_open_recovered_or_closed(
    page: Page, more: dict[str, Any], tone: str, noun: str
) -> None:
    incident = {**an_incident(), "datastream": "orders", "matters": [], "worst_ms": None, "costs": []}
    stored = {**incident, "evidence": {}, "timeline": [], "left_out": 0, **more}
    (found,) = call(page, "views/datastream", "incidentsOf", [stored])
    assert found["state"]["tone"] == tone
    assert noun in found["state"]["word"]
    assert found["state"]["sign"]


@pytest.mark.parametrize(
    ("more", "rank", "tone", "noun"),
    [
        ({}, "well", "good", ""),
        ({"loses_data_in_seconds": 600.0, "status": "PAUSED"}, "loss", "bad", ""),
        ({"is_set_aside": True, "status": "DAMAGED", "problem": "no JSON"}, "aside", "bad", "damaged"),
        ({"is_set_aside": True, "problem": "no topic"}, "aside", "bad", "problem"),
        ({"status": "PAUSED", "oldest_ms": 900_000, "at_least_ms": 900_000}, "halted", "idle", "paused"),
        ({"oldest_ms": 2_600, "at_least_ms": 2_600, "counted_ms": 2_600}, "late", "bad", ""),
        ({"oldest_ms": 2_600, "at_least_ms": 2_600}, "well", "good", ""),
        ({"oldest_ms": None, "at_least_ms": 2_600, "counted_ms": 2_600}, "late", "bad", ""),
        ({"incident": an_incident()}, "late", "bad", ""),
        ({"incident": an_incident(closing_ms=NOW)}, "incident", "warn", "recovered"),
        (
            {"oldest_ms": 90_000, "at_least_ms": 90_000, "counted_ms": 90_000, "states": {"CATCHING_UP": 3}},
            "behind",
            "warn",
            ": 3",
        ),
        ({"oldest_ms": 90_000, "at_least_ms": 90_000, "states": {"WARN": 3}}, "behind", "warn", ": 3"),
        ({"states": {"STALL": 2, "WARN": 1}, "worst": "t-0: nothing moves"}, "stuck", "bad", ": 2"),
        ({"unplaced": 1}, "unplaced", "warn", "1 partition "),
        ({"offending": 2}, "hot", "warn", "2 partitions "),
        ({"hot": 2}, "well", "good", ""),
        ({"states": {"CATCHING_UP": 3}}, "behind", "warn", ": 3"),
        ({"oldest_ms": None, "at_least_ms": None, "lag_records": None}, "unknown", "note", "unknown"),
        ({"status": "INITIALIZING"}, "unknown", "note", "initializing"),
    ],
)
def test_a_datastream_is_what_is_most_urgent_of_it(
    page: Page, more: dict[str, Any], rank: str, tone: str, noun: str
) -> None:
    found = call(page, "views/overview", "standing", a_glance(**more))
    ranks = page.evaluate("import('/ui/views/overview.js').then((one) => one.RANKS)")
    assert (found["rank"], found["tone"]) == (ranks[rank], tone)
    assert noun in found["word"]
    assert found["word"]
    assert found["sign"], "the status is shown by colour only"


def test_the_worst_come_first_and_filters_leave_what_is_asked_for(page: Page) -> None:
    answer = an_overview(
        a_glance(name="b-well"),
        a_glance(name="a-well", owner="other"),
        a_glance(name="heavy", offending=1),
        a_glance(name="lost", loses_data_in_seconds=60.0),
        a_glance(name="late", oldest_ms=3_000, at_least_ms=3_000, counted_ms=3_000),
        a_glance(name="later", oldest_ms=9_000, at_least_ms=9_000, counted_ms=9_000),
        a_glance(name="unreported", oldest_ms=None, at_least_ms=None),
    )

    def names(**wanted: str) -> list[str]:
        return [row["name"] for row in call(page, "views/overview", "rowsOf", answer, wanted)]

    assert names() == ["lost", "later", "late", "heavy", "unreported", "a-well", "b-well"]
    assert names(tone="bad") == ["lost", "later", "late"]
    assert names(text="WELL") == ["a-well", "b-well"]
    assert names(owner="other") == ["a-well"]


def test_a_sum_of_which_a_part_is_unknown_says_at_least(page: Page) -> None:
    known, unknown = a_glance(name="one"), a_glance(name="two", bytes_per_second=None)

    def throughput(*datastreams: dict[str, Any]) -> str:
        facts = call(page, "views/overview", "summaryOf", an_overview(*datastreams))["facts"]
        return next(str(one["text"]) for one in facts if one["name"] == "Throughput")

    assert throughput(known) == "1.3 MB/s"
    assert throughput(known, unknown) == "at least 1.3 MB/s"
    assert throughput(unknown) == "unknown"


def a_load(topic: str, number: int, rate: float | None, **more: Any) -> dict[str, Any]:
    return {
        **{
            "topic": topic,
            "partition": number,
            "task": "shop-0",
            "instance": "one",
            "bytes_per_second": rate,
        },
        **{"messages_per_second": None, "rate_source": "slope", "measured_at_ms": NOW, "age_ms": 0},
        **{"is_lower_bound": False, "is_offending": False},
        "is_hot": None if rate is None else rate >= 120_000,
        **more,
    }


def loads(*partitions: dict[str, Any], left_out: int = 0) -> dict[str, Any]:
    return {"provider": "pinot", "no_answer": "", "partitions": list(partitions), "left_out": left_out}


def test_needs_of_the_last_planning_have_its_time_and_loads_are_those_of_now(page: Page) -> None:
    def facts(*given: Any) -> dict[str, tuple[str, int | None]]:
        found = call(page, "views/datastream", "factsOf", a_glance(), 240_000, *given)
        return {one["name"]: (one["text"], one.get("asOfMs")) for one in found}

    planned_ms = NOW - 236_000
    known = facts(loads(a_load("t", 0, 3_000.0), a_load("t", 1, 4_000.0), a_load("t", 2, 1.0, task="shop-1")))
    assert known["Fullest task"] == ("7 kB/s", None)
    assert known["Tasks"] == ("3", planned_ms)
    for unknown in (
        loads(a_load("t", 0, 3_000.0), a_load("t", 1, None)),
        loads(a_load("t", 0, 3_000.0), left_out=1),
        None,
    ):
        assert facts(unknown)["Fullest task"] == ("100 B/s", planned_ms)
    by = call(page, "views/datastream", "measuredBy", loads(a_load("t", 0, 1.0), a_load("t", 1, None)))
    assert ("pinot" in by["text"], by["ms"]) == (True, NOW)
    row = call(page, "views/overview", "rowsOf", an_overview(a_glance(required_tasks=4)), {})[0]
    assert (row["needed"].split()[0], row["plannedMs"]) == ("4", planned_ms)


def test_a_hot_partition_is_told_from_a_topic_that_has_too_few(page: Page) -> None:
    skewed = [a_load("orders", 0, 200_000.0), a_load("orders", 1, 7_000.0), a_load("orders", 2, 7_000.0)]
    even = [a_load("clicks", number, 150_000.0) for number in range(2)]
    unknown = [a_load("silent", 0, None)]
    found = call(page, "views/hot", "rowsOf", loads(*skewed, *even, *unknown), 240_000, [])
    assert [row["standing"]["word"] for row in found] == ["hot", "fits", "fits", "hot", "hot", "unknown"]
    assert found[0]["shareText"] == "83 %"
    assert "key" in found[0]["advice"]
    assert found[3]["advice"].startswith("Add partitions")
    assert found[5]["skew"] == found[5]["load"] == "unknown"
    said = call(page, "views/hot", "sentenceOf", found, loads(*skewed), 240_000)
    assert re.match(r"orders-0\b.* 200 kB/s, 83 % .*\b240 kB/s", said)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"objective_ms": None, "percentile": None}, "none"),
        ({}, "unknown"),
        ({"budget_left": 0.5, "budget_as_of_ms": NOW}, "50 %"),
        ({"objective_ms": None, "percentile": None, "budget_left": 0.5, "budget_as_of_ms": NOW}, "50 %"),
    ],
)
def test_a_datastream_without_an_objective_has_no_budget(page: Page, more: dict[str, Any], text: str) -> None:
    (row,) = call(page, "views/overview", "rowsOf", an_overview(a_glance(**more)), {})
    facts = call(page, "views/datastream", "factsOf", a_glance(**more), 240_000, None)
    assert row["budget"] == text
    assert next(one["text"] for one in facts if "budget" in one["name"]) == text


def test_hot_is_the_same_on_every_page(page: Page) -> None:
    known = loads(a_load("t", 0, 130_000.0), a_load("t", 1, 1.0, is_offending=True), a_load("t", 2, None))
    words = [row["standing"]["word"] for row in call(page, "views/hot", "rowsOf", known, 240_000, [])]
    assert words == ["hot", "fits", "unknown"], "hot according to the latest planning run"
    (task,) = call(page, "views/datastream", "placementOf", known, 240_000)["tasks"]
    assert task["hot"] == ["t-0"]
    overview = an_overview(a_glance(hot=1), a_glance(name="two", hot=None, offending=2))
    facts = {one["name"]: one for one in call(page, "views/overview", "summaryOf", overview)["facts"]}
    assert (facts["Hot partitions"]["text"], "half" in facts["Hot partitions"]["note"]) == ("1", True)
    assert call(page, "views/hot", "firstToLookAt", overview) == "orders"


def test_a_partition_that_no_task_can_carry_is_marked_and_its_moves_are_told(page: Page) -> None:
    event: dict[str, Any] = {"event_key": "e", "time_ms": NOW, "topic": "t", "kafka_partition": 0}
    event["sentence"] = "it is heavy"
    row, other = call(
        page,
        "views/hot",
        "rowsOf",
        loads(a_load("t", 0, 300_000.0, is_offending=True), a_load("t", 1, 0.0), left_out=3),
        240_000,
        [event | {"bytes_per_second": 5_000.0}, event | {"topic": "", "event_key": "f"}],
    )
    assert (row["standing"]["tone"], row["skew"]) == ("bad", "unknown")
    assert "heavy" in row["standing"]["word"]
    assert [one["text"] for one in row["history"]] == ["it is heavy"]
    assert (other["advice"], other["history"]) == ("", [])


def test_a_plan_can_be_approved_only_while_it_is_true(page: Page) -> None:
    proposal = {
        **{
            "id": "1",
            "datastream": "shop",
            "epoch": 5,
            "expires_ms": NOW + 1,
            "asked_by": None,
            "changed": [],
        },
        **{
            "tasks": 3,
            "required_tasks": 3,
            "task_lower_bound": 3,
            "moved": 1_000.0,
            "moved_lower_bound": 900.0,
        },
        **{"loads_known": True, "sentence": "one moves", "reasons": [], "moves": []},
    }
    move: dict[str, Any] = {
        "datastream": "shop",
        "partition": "t-0",
        "from_task": "shop-0",
        "to_task": "shop-1",
        "reason": "r",
    }
    move |= {"from_instance": "one", "to_instance": None}

    def refusal(role: str = "", **more: Any) -> str:
        diff = call(page, "views/preview", "diffOf", proposal | {"moves": [move], **more}, 3)
        return str(call(page, "views/preview", "refusalOf", diff, role))

    assert refusal() == ""
    assert refusal(role="wendy may not") == "wendy may not"
    assert refusal(changed=["epoch 6"]).endswith("epoch 6")
    assert "petra" in refusal(asked_by="petra")
    assert refusal(moves=[])
    (row,) = call(page, "views/preview", "diffOf", proposal | {"moves": [move]}, 3)["rows"]
    assert (row["from"], row["to"]) == ("shop-0 on one", "shop-1")


def test_a_stream_of_events_is_read_at_whatever_place_it_is_cut(page: Page) -> None:
    text = ': nothing new\n\nid: 1-0\n\nid: 1-1\ndata: {"a":1}\n\nevent: gap\ndata: {}\n\n'
    whole = call(page, "lib/live", "eventsOf", text)
    assert [(one["id"], one["kind"], one["data"]) for one in whole["events"]] == [
        ("1-0", "message", ""),
        ("1-1", "message", '{"a":1}'),
        ("", "gap", "{}"),
    ]
    for cut in range(len(text)):
        first = call(page, "lib/live", "eventsOf", text[:cut])
        second = call(page, "lib/live", "eventsOf", first["rest"] + text[cut:])
        assert first["events"] + second["events"] == whole["events"]


def test_a_call_can_be_copied_into_a_shell_whatever_is_in_it(page: Page) -> None:
    body = {"reason": 'it\'s; $(rm -rf /) `x` "y"'}
    text = call(page, "lib/api", "curlOf", {"method": "POST", "path": "/v1/x", "body": body}, "http://here")
    words = shlex.split(text)
    assert words[:5] == ["curl", "-sS", "-X", "POST", "http://here/v1/x"]
    assert json.loads(words[words.index("-d") + 1]) == body
    assert "Authorization: Bearer $HEADRACE_TOKEN" in words


def test_what_a_tab_remembers_has_holes_where_nobody_looked(page: Page) -> None:
    def after(samples: list[dict[str, Any]], at: int) -> list[dict[str, Any]]:
        return list(call(page, "lib/history", "withSample", samples, {"at": at, "oldest": 1}))

    samples = after(after(after([], 10), 15), 15)
    assert [one["at"] for one in samples] == [10, 15]
    assert [one["at"] for one in after(samples, 500)] == [10, 15, 16, 500]
    drawn = call(page, "lib/history", "columns", after(samples, 500), ["oldest", "queue"])
    assert drawn["values"] == [[1, 1, None, 1], [None] * 4]
    many = after([{"at": number} for number in range(720)], 720)
    assert (len(many), many[0]["at"]) == (720, 1)


def an_advice(**more: Any) -> dict[str, Any]:
    """Return advice for two tasks on one instance, as needed."""
    values: dict[str, Any] = {
        **{"computed_ms": NOW, "tasks": 2, "instances": 1, "required_tasks": 2, "required_instances": 1},
        **{"why": "", "sentence": "it fits", **more},
    }
    return AdviceAnswer.model_validate(values).model_dump(mode="json")


def a_need(hour: int, tasks: int, most: int) -> dict[str, int]:
    return {"hour_ms": NOW + hour * 3_600_000, "tasks": tasks, "most_tasks": most}


def a_group(name: str, *coming: dict[str, int], **more: Any) -> dict[str, Any]:
    values = {"group": name, "tasks": 2, "now": 2, "coming": list(coming), "why": "", "tried": 0}
    return {**values, "covered": None, "error": None, **more}


@pytest.mark.parametrize(
    ("more", "tone"),
    [
        ({}, "good"),
        ({"required_tasks": None, "required_instances": None}, "note"),
        ({"required_tasks": 3}, "bad"),
        ({"required_instances": 2}, "bad"),
        ({"rises": a_need(2, 3, 4)}, "warn"),
        ({"lower_since_ms": NOW, "lower_tasks": 1}, "idle"),
    ],
)
def test_an_advice_is_what_is_most_urgent_of_it(page: Page, more: dict[str, Any], tone: str) -> None:
    found = call(page, "views/advice", "standingOf", an_advice(**more))
    assert (found["tone"], bool(found["word"]), bool(found["sign"])) == (tone, True, True)


def test_what_is_not_advised_is_unknown_and_nothing_is_saved(page: Page) -> None:
    unknown = an_advice(required_tasks=None, required_instances=None, instances=None, tasks=None)
    tasks, instances, peak, _ = (one["text"] for one in call(page, "views/advice", "factsOf", unknown))
    assert tasks == instances == peak == "unknown"
    assert call(page, "views/advice", "savingsOf", unknown) == ""
    day, week = call(page, "views/advice", "pastOf", unknown)
    assert all(word in day for word in ("day", "unknown"))
    assert all(word in week for word in ("week", "unknown"))
    assert call(page, "views/advice", "forecastOf", unknown)["times"] == []


@pytest.mark.parametrize(
    ("sums", "said"),
    [
        ((100, 60, 24, None), r"save 40\D+100 task-hours \(40 %\)\.$"),
        ((100, 100, 24, 24), r"all 100 task-hours\b.*; all 24 instance-hours\b"),
        ((100, 120, 24, 25), r"20 task-hours \w+ \(120 \w+, 100 \w+\)"),
        ((1, 2, 1, 1), r"1 task-hour \w+ \(2 \w+, 1 \w+\); the one instance-hour\b"),
    ],
)
def test_what_would_be_saved_or_is_missing_is_said_in_hours(
    page: Page, sums: tuple[int, int, int, int | None], said: str
) -> None:
    names = ("task_hours", "needed_task_hours", "instance_hours", "needed_instance_hours")
    text = call(
        page,
        "views/advice",
        "savingsOf",
        an_advice(sums={"hours": 24, **dict(zip(names, sums, strict=True))}),
    )
    assert "24 hours" in text
    assert re.search(said, text)


def test_groups_with_what_they_lack_first_and_how_good_forecasts_were(page: Page) -> None:
    groups = [
        a_group("a", a_need(1, 2, 2), a_need(2, 3, 5), tried=10, covered=0.9, error=0.125),
        a_group("b", now=4, why="load unknown of 3 partitions"),
    ]
    lacking, fits = call(page, "views/advice", "groupsOf", an_advice(groups=groups))
    assert (lacking["name"], lacking["next"], lacking["why"]) == ("b", "unknown", groups[1]["why"])
    assert (fits["next"], fits["most"]) == ("2", "3 to 5")
    assert re.match(r"upper bound .*\b90 % of 10 forecasts\b.*\b13 %$", fits["grade"])
    assert call(page, "views/advice", "forecastOf", an_advice(groups=groups))["times"] == []


def test_forecasts_of_all_groups_are_added_up_hour_by_hour(page: Page) -> None:
    groups = [a_group("a", a_need(1, 2, 3), a_need(2, 3, 5)), a_group("b", a_need(1, 1, 1))]
    drawn = call(page, "views/advice", "forecastOf", an_advice(groups=groups))
    assert [one - NOW / 1000 for one in drawn["times"]] == [3_600, 7_200, 10_800]
    assert (drawn["tasks"], drawn["most"], drawn["there"]) == ([3, None, None], [4, None, None], [2, 2, 2])


def test_since_when_a_partition_is_hot_comes_with_its_hours(page: Page) -> None:
    names = ("mean_bytes_per_second", "p95_bytes_per_second", "most_bytes_per_second")
    series = {
        "partition": "orders-0",
        **{name: [None, 50.0, 100.0] for name in names},
        **{"hot_since_ms": NOW, "too_heavy_since_ms": None, "is_longer": True},
    }
    history = LoadHistoryAnswer.model_validate(
        {
            **{"name": "shop", "cluster": "source", "usable_bytes_per_second": 150, "hours_ms": [1, 2, 3]},
            "series": [series, series | {"partition": "orders-1", "hot_since_ms": None, "is_longer": False}],
        }
    ).model_dump(mode="json")
    found = page.evaluate(
        "(history) => import('/ui/views/hot.js').then((one) => [...one.sinceOf(history)])", history
    )
    ((name, since),) = found
    assert (name, since["ms"], since["isLonger"]) == ("orders-0", NOW, True)
    assert call(page, "views/hot", "heightsOf", since["means"]) == [None, 0.5, 1]
    text = call(page, "views/hot", "heightsText", since["means"])
    assert re.search(r"\b50 B/s\b.*\b100 B/s\b.*\b100 B/s\b.*\b2 hours$", text)
    assert call(page, "views/hot", "heightsOf", [0.0, None]) == [0, None]


def test_lateness_is_a_sentence_too(page: Page) -> None:
    history = {"p99_ms": [None, 80.0, 2_600.0, None], "records": [None, 10, 20, 0]}
    said = call(page, "views/datastream", "lateText", history)
    assert re.match(r"p99 .*\b80 ms .*\b2\.6 s .*\b30 records; 2\.6 s\b", said)
    nothing = {"p99_ms": [None], "records": [0]}
    assert re.fullmatch(r"\D+ records \D+", call(page, "views/datastream", "lateText", nothing))


def test_an_instance_shows_what_it_uses(page: Page) -> None:
    health = {"processes": 3, "memory_bytes": 650_000_000, "cpu_cores": 1.04}
    processes, memory, cores = call(page, "views/instances", "usageOf", health).split(", ")
    assert (processes, memory[:6]) == ("3 processes", "650 MB")
    assert re.match(r"1 core\b", cores)
    assert call(page, "views/instances", "usageOf", {**health, "cpu_cores": None}).endswith("resident")
    assert call(page, "views/instances", "usageOf", {"memory_bytes": None}) == "unknown"
    assert call(page, "views/instances", "usageOf", None) == "unknown"


def test_throughput_is_a_sentence_and_its_ticks_are_exact(page: Page) -> None:
    said = call(
        page, "views/datastream", "throughputText", {"bytes_per_second": [None, 1_500.0, 500.0, None]}
    )
    assert re.match(r"Between 500 B/s and 1\.5 kB/s; 500 B/s\b", said)
    nothing = call(page, "views/datastream", "throughputText", {"bytes_per_second": [None]})
    assert re.fullmatch(r"\D+", nothing)
    waiting = call(page, "views/datastream", "lagText", {"lag_records": [None, 1_500.4, 0.0, None]})
    assert re.match(r"\D+ 0 and 1,500 waiting records\D+; 0 in\b", waiting)
    assert re.fullmatch(r"\D+", call(page, "views/datastream", "lagText", {"lag_records": [None]}))
    ticks = call(page, "lib/format", "rateTicks", [0, 500, 1_000, 1_500, 20_000_000])
    assert ticks == ["0 B/s", "500 B/s", "1 kB/s", "1.5 kB/s", "20 MB/s"]


def test_a_history_begins_with_what_was_measured_first(page: Page) -> None:
    history = {"name": "shop", "times_ms": [1, 2, 3, 4], "records": [None, 0, None, 5], "step_ms": 1}
    assert call(page, "views/datastream", "measuredOf", history) == {
        **history,
        **{"times_ms": [2, 3, 4], "records": [0, None, 5]},
    }
    late = history | {"records": [None, None, None, 5]}
    assert call(page, "views/datastream", "measuredOf", late)["times_ms"] == [3, 4]
    nothing = history | {"records": [None] * 4}
    assert call(page, "views/datastream", "measuredOf", nothing) == nothing


def test_one_is_one(page: Page) -> None:
    assert call(page, "lib/format", "many", 1, "task") == "1 task"
    assert call(page, "lib/format", "many", 2, "entry", "entries") == "2 entries"
    assert call(page, "lib/format", "many", None, "entry", "entries") == "entries unknown"
    history = {"p99_ms": [80.0], "records": [1]}
    assert "over 1 record;" in call(page, "views/datastream", "lateText", history)
    day = {"hours": 1, "needed_task_hours": 1, "task_hours": 1, "peak_task_hours": 1}
    said = call(page, "views/advice", "pastOf", an_advice(past_day=day))
    assert re.search(r"\b1 of 24 .*\b1 task-hour\b", said[0])


@pytest.mark.parametrize(
    ("most", "labels"),
    [
        (1.1, ["0 ms", "1 ms"]),
        (60_000, ["0 s", "15 s", "30 s", "45 s", "60 s"]),
        (200_000, ["0 min", "1 min", "2 min", "3 min"]),
        (9_000_000, ["0 min", "30 min", "60 min", "90 min", "120 min", "150 min"]),
        (10_800_000, ["0 h", "1 h", "2 h", "3 h"]),
    ],
)
def test_ticks_of_a_chart_say_what_they_stand_at(most: float, labels: list[str], page: Page) -> None:
    code = "import('/ui/lib/format.js').then((one) => one.DURATION_STEPS)"
    steps = page.evaluate(code)
    step = next(step for step in steps if most / step < 6)
    ticks = [step * number for number in range(int(most / step) + 1)]
    assert call(page, "lib/format", "durationTicks", ticks, step) == labels


def test_every_distance_of_ticks_has_exact_and_different_labels(page: Page) -> None:
    steps = page.evaluate("import('/ui/lib/format.js').then((one) => one.DURATION_STEPS)")
    assert steps == sorted(set(steps))
    units = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
    for step in steps:
        labels = call(page, "lib/format", "durationTicks", [0, step, 2 * step, 7 * step], step)
        numbers, names = zip(*(label.replace(",", "").split() for label in labels), strict=True)
        assert [int(number) * units[name] for number, name in zip(numbers, names, strict=True)] == [
            0, step, 2 * step, 7 * step,
        ]  # fmt: skip


def test_the_newest_place_of_a_chart_has_a_value_of_any_line(page: Page) -> None:
    assert call(page, "lib/chart", "newestOf", [[1, None, None], [2, 3, None]]) == 1
    assert call(page, "lib/chart", "newestOf", [[None], [None]]) == -1
    assert call(page, "lib/chart", "newestOf", []) == -1


def a_usage(*lines: dict[str, Any], owners: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a response of /v1/usage for two days."""
    day = 86_400_000
    answer = {"since_ms": NOW // day * day - day, "until_ms": NOW, "measured_by": "topic", "currency": "EUR"}
    return UsageAnswer.model_validate(
        {**answer, "owners": owners, "lines": list(lines), "left_out": 0}
    ).model_dump(mode="json")


def test_usage_is_shown_by_owner_topic_and_day(page: Page) -> None:
    today = NOW // 86_400_000 * 86_400_000
    line: dict[str, Any] = {
        "owner": "one",
        "datastream": "orders",
        "source": "a",
        "destination": "b",
        "topic": "t",
    }
    line |= {
        "day_ms": today - 86_400_000,
        "bytes": 86_400,
        "records": 10,
        "batches": 1,
        "cpu_seconds": 1.0,
        "cost": 2.0,
    }
    sums = {"bytes": 86_400, "records": 10, "batches": 1, "cpu_seconds": 1.0, "cost": 2.0}
    owner = {"owner": "one", **sums, "quota_bytes_per_second": 1_000, "quota_share": 0.5}
    nobody = {**owner, "owner": "", "cost": None, "quota_bytes_per_second": None, "quota_share": None}
    unknown = {**line, "owner": "", "cost": None}
    usage = a_usage(line, line, unknown, owners=[owner, nobody])
    one, other = call(page, "views/usage", "ownersOf", usage)
    assert (one["name"], one["cost"], one["shareText"]) == ("one", "2.00 EUR", "50 %")
    assert (other["cost"], other["quota"], other["shareText"]) == ("unknown", "none", "")
    first, second = call(page, "views/usage", "topicsOf", usage)
    assert (first["bytes"], first["cost"], second["cost"]) == (172_800, "4.00 EUR", "unknown")
    drawn = call(page, "views/usage", "ratesOf", usage)
    assert len(drawn["times"]) == 2
    assert [series["values"] for series in drawn["series"]] == [[2, 0], [1, 0]]
    cost = call(page, "views/usage", "factsOf", usage)[-1]
    assert cost["text"] == "unknown"


def test_the_window_of_a_distant_broker_is_the_reason_of_a_partition(page: Page) -> None:
    figures = (3, 125_000, 100.2, 24, 64)
    window = WindowAnswer(**dict(zip(WindowLimit._fields, figures, strict=True))).model_dump()
    lane = {"topic": "t", "partition": 0, "state": "copying", "reason": "", "destination_window": window}
    (row,) = call(page, "views/partitions", "rowsOf", {"partitions": [lane]})
    assert all(text in row["why"] for text in ("broker 3", "125 kB", "24 of 64", "write_connections"))
