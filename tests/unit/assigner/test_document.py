"""The what-if document: valid inputs, and results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assigner.problem.policy import PlanMode, Policy
from assigner.what_if.document import Fallback, read_csv, read_json, understand
from assigner.what_if.report import task_rows, to_json
from mirror.errors import InvalidRequest
from mirror.model.load import TaskCapacity

FALLBACK = Fallback(TaskCapacity(100, None, 100))


def a_partition(topic: str, number: object, **fields: Any) -> dict[str, Any]:
    return {"topic": topic, "partition": number, **fields}


DOCUMENT = {
    "capacity": {"bytes_per_second": 100, "messages_per_second": None, "utilisation_percent": 70},
    "limits": {"min_tasks": 1, "max_tasks": None, "max_partitions_per_task": 10},
    "mode": "incremental",
    "rebalance": False,
    "defaults": {"bytes_per_second": 1, "messages_per_second": 1},
    "topics": {"logs": {"bytes_per_second": 7}},
    "partitions": [
        a_partition("orders", 0, bytes_per_second=50, messages_per_second=5, task=0),
        a_partition("orders", 1, bytes_per_second=30, task=0),
        a_partition("orders", 2, bytes_per_second=90, task=1),
        a_partition("orders", 3, bytes_per_second=5, task=1),
        a_partition("logs", 0),
        a_partition("other", 0, task=None),
    ],
    "hosts": [{"name": "a", "weight": 2}, {"name": "b"}],
}


def answered(document: dict[str, Any]) -> dict[str, Any]:
    question = understand(document, FALLBACK)
    found, names = question.answer()
    return to_json(question, found, names)


def test_the_whole_answer() -> None:
    found = answered(DOCUMENT)
    assert list(found) == [
        "tasks",
        "required_tasks",
        "task_lower_bound",
        "max_load_bytes_per_second",
        "max_load_lower_bound_bytes_per_second",
        "placement",
        "moves",
        "moved_bytes_per_second",
        "moved_lower_bound_bytes_per_second",
        "offending",
        "overloaded_tasks",
        "estimated",
        "defaulted",
        "unplaced",
        "reasons",
        "stage",
        "cut_short",
        "hosts",
    ]
    assert (found["tasks"], found["required_tasks"], found["task_lower_bound"]) == (3, 3, 3)
    assert {(p["topic"], p["partition"]): p["task"] for p in found["placement"]} == {
        ("logs", 0): 2,
        ("orders", 0): 0,
        ("orders", 1): 2,
        ("orders", 2): 1,
        ("orders", 3): 2,
        ("other", 0): 2,
    }
    moves = [(m["topic"], m["partition"], m["from"], m["to"]) for m in found["moves"]]
    assert moves == [("orders", 1, 0, 2), ("orders", 3, 1, 2)]
    assert "task 0 114.3 % -> 71.4 %" in found["moves"][0]["reason"]
    assert found["moved_bytes_per_second"] == found["moved_lower_bound_bytes_per_second"] == 35
    assert found["offending"] == [{"topic": "orders", "partition": 2}]
    assert found["overloaded_tasks"] == [1]
    assert found["estimated"] == [{"topic": "logs", "partition": 0}]
    assert found["defaulted"] == [{"topic": "other", "partition": 0}]
    assert {host["name"]: host["load_bytes_per_second"] for host in found["hosts"]} == {"a": 133, "b": 50}
    assert json.loads(json.dumps(found)) == found


def test_names_of_tasks_are_kept_and_continued() -> None:
    partitions = [a_partition("t", n, bytes_per_second=90, task=f"orders-{n + 3}") for n in range(2)]
    found = answered({"partitions": [*partitions, a_partition("t", 7, bytes_per_second=90)]})
    assert [p["task"] for p in found["placement"]] == ["orders-3", "orders-4", "orders-0"]
    free = answered(
        {"partitions": [a_partition("t", 0, task="left"), a_partition("t", 1, bytes_per_second=99)]}
    )
    assert {p["task"] for p in free["placement"]} <= {"left", "task-0"}


def test_a_number_and_its_text_are_two_tasks_on_hosts_too() -> None:
    partitions = [
        a_partition("a", 0, bytes_per_second=80, task=1),
        a_partition("a", 1, bytes_per_second=90, task="1"),
    ]
    found = answered({"partitions": partitions, "hosts": [{"name": "x"}, {"name": "y"}]})
    assert {tuple(host["tasks"]): host["load_bytes_per_second"] for host in found["hosts"]} == {
        (1,): 80,
        ("1",): 90,
    }


def test_new_tasks_take_the_lowest_free_numbers() -> None:
    partitions = [
        a_partition("t", n, bytes_per_second=90, task=task) for n, task in enumerate([1, 5, -1, None])
    ]
    assert sorted(p["task"] for p in answered({"partitions": partitions})["placement"]) == [0, 1, 2, 5]


def test_what_is_left_out_comes_from_the_settings() -> None:
    policy = Policy(tolerance=0.3, seed=9)
    question = understand(
        {"policy": {"seed": 4}, "mode": "full"}, Fallback(TaskCapacity(7, None, 90), policy=policy)
    )
    assert question.capacity == TaskCapacity(7, None, 90)
    assert (question.policy.tolerance, question.policy.seed, question.policy.mode) == (0.3, 4, PlanMode.FULL)


def test_rows_for_a_person() -> None:
    question = understand(DOCUMENT, FALLBACK)
    rows = task_rows(question, *question.answer())
    assert [(row["task"], row["partitions"], row["percent_of_usable"]) for row in rows] == [
        (0, 1, "71.4"),
        (1, 1, "128.6"),
        (2, 4, "61.4"),
    ]


def test_csv() -> None:
    document = read_csv(
        'topic,partition,bytes_per_second,messages_per_second,task\na,0,10.5,,3\n\na,1, ,,x-1\n"a",2,,,-1'
    )
    assert document["partitions"] == [
        {"topic": "a", "partition": 0, "bytes_per_second": 10.5, "task": 3},
        {"topic": "a", "partition": 1, "task": "x-1"},
        {"topic": "a", "partition": 2, "task": -1},
    ]
    assert understand(document, FALLBACK).loads.rates[:, 0].tolist() == [10.5, 5120.0, 5120.0]


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("topic,bytes", "unknown column 'bytes'"),
        ("topic,task", "partition is missing"),
        ("", "topic is missing"),
        ("\n\n\n", "topic is missing"),
        ("topic,partition,topic", "duplicate column 'topic'"),
        ("topic,partition\na", "line 2"),
        ("topic,partition\n\na,0,9", "line 3"),
        ("topic,partition\na,x", "line 2: partition is 'x'"),
        ("topic,partition\na,٣", "line 2: partition is '٣'"),
        (f"topic,partition\na,{2**31}", "line 2: partition is 2147483648"),
        ("topic,partition,bytes_per_second\na,0,nan", "line 2: bytes_per_second .*'nan'"),
        ("topic,partition,messages_per_second\na,0,1_0", "line 2: messages_per_second .*'1_0'"),
        ("topic,partition,bytes_per_second\na,0,1e999", "line 2: bytes_per_second .*inf"),
        (f"topic,partition\n{'a' * 200_000},0", "line 2"),
        ("[" * 100_000, "unknown column"),
    ],
)
def test_bad_csv_is_named(text: str, culprit: str) -> None:
    with pytest.raises(InvalidRequest, match=culprit) as refused:
        read_csv(text)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("task", ["--5", "-", "٣", "²", "1.5", "a-" + "9" * 5_000, "9" * 5_000])
def test_what_is_no_number_of_a_task_is_its_name(task: str) -> None:
    document = read_csv(f"topic,partition,task\na,0,{task}")
    assert document["partitions"][0]["task"] == task
    assert understand(document, FALLBACK).answer()[1] == [task]


def test_messages_count_where_bytes_are_not_known() -> None:
    document = {
        "partitions": [a_partition("logs", 0, messages_per_second=90), a_partition("x", 0)],
        "topics": {"logs": {"bytes_per_second": 7, "messages_per_second": 3}},
        "defaults": {"bytes_per_second": 2, "messages_per_second": 1},
    }
    loads = understand(document, FALLBACK).loads
    assert loads.rates.tolist() == [[7, 90], [2, 1]]
    assert loads.levels.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("[", "line 1"),
        ("[]", "JSON object"),
        ("{\n3}", "line 2"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5_000, "not JSON"),
        ('{"partitions": [], "partitions": []}', "duplicate key 'partitions'"),
    ],
)
def test_bad_json_is_named(text: str, culprit: str) -> None:
    with pytest.raises(InvalidRequest, match=culprit):
        read_json(text)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"partitons": []}, "partitons: unknown key"),
    ({"partitions": [a_partition("a", 0, load=3)]}, r"partitions.0.load \(partition a-0\): unknown key"),
    ({"partitions": [a_partition("a", 0, bytes_per_second="many")]}, r"partitions.0.bytes_per_second .*a-0"),
    ({"partitions": [a_partition("a", -1)]}, r"partitions.0.partition"),
    ({"partitions": [{"topic": "a"}]}, "partitions.0.partition: required"),
    ({"partitions": [a_partition("a", 0, bytes_per_second=float("nan"))]}, "partition a-0: nan bytes"),
    ({"partitions": [a_partition("a", 0, bytes_per_second=float("inf"))]}, "partition a-0: inf bytes"),
    ({"partitions": [a_partition("a", 0, bytes_per_second=-1)]}, "partition a-0: -1"),
    (
        {"partitions": [a_partition("a", 0, bytes_per_second=1, messages_per_second=-3)]},
        "a-0: -3.0 messages",
    ),
    ({"partitions": [a_partition("a", 0), a_partition("a", 0)]}, "a-0 appears twice"),
    ({"topics": {"a": {"bytes_per_second": -4}}}, "topics.a: the load -4"),
    ({"defaults": {"bytes_per_second": float("nan")}}, "defaults: the load nan"),
    ({"capacity": {"bytes_per_second": 0}}, "capacity of a task in bytes"),
    ({"capacity": {"bytes_per_second": 9, "messages_per_second": 0}}, "capacity of a task in messages"),
    ({"capacity": {"bytes_per_second": 9, "utilisation_percent": 0}}, "threshold"),
    ({"capacity": {"bytes_per_second": 9, "utilisation_percent": 101}}, "threshold"),
    ({"capacity": {"bytes_per_second": 1, "utilisation_percent": 50}}, "0 bytes per second"),
    ({"limits": {"min_tasks": 5, "max_tasks": 2}}, "max_tasks 2 is below min_tasks 5"),
    ({"limits": {"max_partitions_per_task": 0}}, "max_partitions_per_task"),
    ({"limits": None}, "limits: must be a valid dictionary$"),
    ({"partitions": [a_partition("a", 0, task=-7)]}, r"partitions.0.task \(partition a-0\): invalid task -7"),
    ({"partitions": [a_partition("a", 0, task="")]}, r"partitions.0.task \(partition a-0\): invalid task ''"),
    ({"partitions": [a_partition("a", 0, messages_per_second=float("nan"))]}, "a-0: nan messages"),
    ({"mode": "sideways"}, "mode: must be"),
    ({"partitions": [a_partition("a", 2**31)]}, "partitions.0.partition"),
    ({"partitions": [a_partition("a", True)]}, "partitions.0.partition"),
    ({"partitions": [a_partition("a", "1_0")]}, "partitions.0.partition"),
    ({"partitions": [a_partition("a", "9" * 100_000)]}, "partitions.0.partition"),
    ({"partitions": [a_partition("a\0", 0)]}, "partitions.0.topic"),
    ({"partitions": [a_partition("a\ud800", 0)]}, "partitions.0.topic"),
    ({"partitions": [a_partition("a", 0, task=True)]}, "partitions.0.task"),
    ({"partitions": [a_partition("a", 0, task=10**400)]}, "invalid task"),
    ({"partitions": [a_partition("a", 0, bytes_per_second="1_0")]}, "partitions.0.bytes_per_second"),
    ({"partitions": [a_partition("a", 0, bytes_per_second=10**400)]}, "partitions.0.bytes_per_second"),
    ({"capacity": {"bytes_per_second": 10**400}}, "capacity of a task in bytes"),
    ({"capacity": {"bytes_per_second": 9, "messages_per_second": 10**13}}, "capacity of a task in messages"),
    ({"capacity": []}, "capacity: must be"),
    ({"hosts": [{"name": "a\0"}]}, "hosts.0.name"),
    ({"x" * 100_000: 1}, "unknown key"),
    ({"policy": {"tolerance": 7}}, "tolerance is 7"),
]


@pytest.mark.parametrize(("document", "culprit"), BAD)
def test_a_bad_document_names_its_culprit(document: dict[str, Any], culprit: str) -> None:
    with pytest.raises(InvalidRequest, match=culprit):
        understand(document, FALLBACK).answer()


@pytest.mark.parametrize("document", [document for document, _ in BAD])
def test_what_is_refused_is_one_short_sentence(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        understand(document, FALLBACK).answer()
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)


def test_bad_hosts_are_named() -> None:
    with pytest.raises(InvalidRequest, match="weight of host 'a'"):
        answered({"hosts": [{"name": "a", "weight": 0}]})
