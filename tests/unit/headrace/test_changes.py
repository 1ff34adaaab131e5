"""Test the output of dry runs and of commands on groups."""

from __future__ import annotations

import pytest

from headrace.console.datastreams.changes import print_update_plan
from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("create more --topics nothing --owner me --rename m.*", "/source/topics"),
        ("pause orders", "2 partitions would stop"),
        ("stop orders", "2 partitions would stop"),
        ("delete orders", "2 partitions would stop"),
        ("restart-from orders earliest", "t-0"),
        ("pause-partitions orders t:0 --reason x", "t-0"),
        ("resume-partitions orders t:1", "t-1"),
        ("resume paused", "PAUSED"),
    ],
)
def test_a_dry_run_of_every_command_shows_and_does_nothing(
    command: str, shown: str, site: Site, headrace: Headrace
) -> None:
    site.create("orders")
    body = {"partitions": {"t": "1"}, "reason": "to see"}
    if "resume-partitions" in command:
        site.client.post("/v1/datastreams/orders/pause-partitions", json=body)
    site.create("paused", destination={"cluster": "destination", "name": "p.*"})
    site.client.post("/v1/datastreams/paused/pause", json={})
    site.tick()
    before = site.client.get("/v1/datastreams").json()
    found = headrace("datastream", *command.split(), "--dry-run")
    assert found.code == 0, found.err
    assert shown in found.out
    assert headrace("datastream", *command.split(), "--dry-run", "--json").out.startswith("{")
    assert site.client.get("/v1/datastreams").json() == before


def test_all_that_share_tasks_are_paused_and_resumed(site: Site, headrace: Headrace) -> None:
    shared = {"owner": "tests", "system.taskPrefix": "shared"}
    site.create("a", metadata=shared)
    site.create("b", metadata=shared, source={"cluster": "source", "topics": "u"})
    pause = ("datastream", "pause-group", "shared", "--for", "6h", "--reason", "why", "--by", "me")
    shown = headrace(*pause, "--dry-run")
    assert shown.code == 0, shown.err
    assert "/a/status" in shown.out
    assert site.stored("a").halt is None
    assert headrace(*pause) == (0, "a: PAUSED\nb: PAUSED\n", "")
    halt = site.stored("b").halt
    assert halt is not None
    assert (halt.reason, halt.requested_by) == ("why", "me")
    assert halt.until_ms == halt.since_ms + 6 * 3_600_000
    again = headrace("datastream", "pause-group", "shared", "--for", "1h")
    assert (again.code, again.out) == (2, "")
    assert '"prefix": "shared"' in headrace("datastream", "resume-group", "shared", "--json").out
    assert "nobody" in headrace("datastream", "resume-group", "nobody").err
    assert ".." in headrace("datastream", "resume-group", "..").err


def test_a_dry_run_of_a_move_is_shown(site: Site, headrace: Headrace) -> None:
    site.create()
    move = ("datastream", "move", "orders", "one", "t-0", "--dry-run")
    shown = headrace(*move)
    assert shown.code == 0, shown.err
    for text in ("orders:", "tasks: 1 now, 1 ", "no partition", "- t-0: "):
        assert text in shown.out
    assert '"moves": []' in headrace(*move, "--json").out
    assert "with --dry-run" in headrace(*move, "--wait").err
    assert site.client.get("/v1/operations").json() == []


def test_a_dry_run_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    lane = {
        "partition": "u-0",
        "from_task": None,
        "to_task": "orders-0",
        "from_instance": None,
        "to_instance": "one",
        "reason": "",
        "bytes_per_second": 1234.5,
        "backlog_records": 77,
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
        "started_bytes_per_second": 1234.5,
        "interrupted_bytes_per_second": None,
        "started_backlog_records": 77,
    }
    print_update_plan(answer)
    shown = capsys.readouterr().out
    for text in (
        "[a-z]",
        "tasks: 1 now, 2 ",
        "1 partition would start",
        "u-0",
        "- 2 tasks for",
        "1.2 kB/s would be",
        "77 records wait",
    ):
        assert text in shown
    assert "pause" not in shown
    print_update_plan({**answer, "moves": [lane]})
    assert "an unknown rate" in capsys.readouterr().out
    print_update_plan({**answer, "starts": []})
    assert "no partition" in capsys.readouterr().out
    print_update_plan({**answer, "changes": []})
    assert "nothing would change" in capsys.readouterr().out
