"""What a change of a datastream would do, as it is shown."""

from __future__ import annotations

import pytest

from headrace.console.datastreams.changes import print_update_plan


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
