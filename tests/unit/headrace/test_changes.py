"""`headrace datastream update`: options become a merge patch, and a dry run is shown."""

from __future__ import annotations

import pytest

from headrace.console.changes import patch_of, print_update_plan
from mirror.errors import InvalidRequest


def test_what_is_given_becomes_a_patch_and_nothing_else() -> None:
    options = {"topics": "a|b", "exclude": None, "max_tasks": 4, "objective_ms": 500, "owner": "me"}
    assert patch_of({**options, "bytes_per_second": 1000}, ["note=a=b", "k="], []) == {
        "source": {"topics": "a|b"},
        "limits": {"max_tasks": 4},
        "objective": {"milliseconds": 500},
        "metadata": {"owner": "me", "headrace.bytes-per-second": "1000", "note": "a=b", "k": ""},
    }


def test_what_is_taken_away_is_null() -> None:
    names = ["exclude", "max-tasks", "max-partitions-per-task", "objective-ms", "bytes-per-second", "note"]
    assert patch_of({"min_tasks": 2}, [], names) == {
        "source": {"exclude": None},
        "limits": {"min_tasks": 2, "max_tasks": None, "max_partitions_per_task": None},
        "objective": None,
        "metadata": {"headrace.bytes-per-second": None, "note": None},
    }


@pytest.mark.parametrize(("pairs", "said"), [([], "nothing is to be changed"), (["note"], "has no value")])
def test_what_is_no_change_is_refused(pairs: list[str], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        patch_of({"topics": None}, pairs, [])


def test_a_dry_run_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    lane = {
        "partition": "u-0",
        "from_task": None,
        "to_task": "orders-0",
        "from_instance": None,
        "to_instance": "one",
        "reason": "",
    }
    answer = {
        "name": "orders",
        "changes": [{"field": "/source/topics", "before": "[a-z]", "after": "u"}],
        "tasks_before": 1,
        "tasks_after": 2,
        "starts": [lane],
        "stops": [],
        "moves": [],
        "restarts": [],
        "reasons": ["2 tasks for 3 partitions"],
    }
    print_update_plan(answer)
    shown = capsys.readouterr().out
    for text in ("[a-z]", "tasks: 1 now, 2 then", "1 partitions would start", "u-0", "- 2 tasks for"):
        assert text in shown
    print_update_plan({**answer, "starts": []})
    assert "no partition would start, stop or move" in capsys.readouterr().out
    print_update_plan({**answer, "changes": []})
    assert "nothing would change" in capsys.readouterr().out
