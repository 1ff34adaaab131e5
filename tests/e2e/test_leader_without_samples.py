"""The leader is killed while samples are away: the next one plans by the last known loads, as do dry runs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from tests.e2e.conftest import NewInstance
from tests.kafka_data import make_topic
from tests.mirrored import create_datastream
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

RATES: Final = [3000.0, 3000.0, 3000.0, 10.0, 10.0, 10.0]
"""Bytes per second of each partition: two tasks of 7,000 suffice; by default loads five would be needed."""
OBSERVED: Final = 8
"""Requests for loads after which at least one observation is stored."""
OF_EACH: Final = {"id", "expires_ms"}
AGE: Final = re.compile(r"\d+ (s|min) old")
PLUG_IN: Final = """
import json
import time
from pathlib import Path

from mirror.errors import LoadUnavailable
from mirror.model.load import LoadReport, PartitionLoad


class FileLoads:
    def __init__(self, options):
        self.path, self.calls = Path(options["path"]), Path(options["calls"])

    def loads(self, cluster, partitions):
        with self.calls.open("a") as calls:
            calls.write(".")
        try:
            rates = json.loads(self.path.read_text())
        except FileNotFoundError as error:
            raise LoadUnavailable("no samples") from error
        known = {one: PartitionLoad(rates[one.partition]) for one in partitions}
        return LoadReport(known, "file", int(time.time() * 1000))
"""


def install(folder: Path) -> Path:
    """A package with a load provider that reads a file of rates."""
    about = folder / "file_loads-1.dist-info"
    about.mkdir(parents=True)
    (folder / "file_loads.py").write_text(PLUG_IN)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: file-loads\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[headrace.load_providers]\nfile = file_loads:FileLoads\n")
    return folder


def tasks(instance: RunningInstance) -> dict[str, tuple[str, str | None]]:
    """Return the task and the instance of each partition."""
    return {
        partition: (task["task"], task["instance"])
        for task in instance.rest.get("/v1/plan")["tasks"]
        for partition in task["partitions"]
    }


def dry_runs(instance: RunningInstance, name: str) -> list[str]:
    """Return dry runs of several kinds as texts, without the ages of loads."""
    path, dry = f"/v1/datastreams/{name}", {"dry_run": "true"}
    found = [
        instance.rest.post("/v1/rebalance", {"datastream": name, "full": True, "dry_run": True}),
        instance.rest.post(f"{path}/pause", {}, **dry),
        instance.rest.patch(path, {"limits": {"min_tasks": 3}}, "*", **dry),
        instance.rest.post(f"{path}/plan", {}),
    ]
    assert {(one["loads_known"], one["loads_from"]) for one in found} == {(True, "leader")}
    assert all(is_by_last_known(one["reasons"]) for one in (found[0], *found[2:]))
    texts = [json.dumps({key: value for key, value in one.items() if key not in OF_EACH}) for one in found]
    return [AGE.sub("old", one) for one in texts]


def is_by_last_known(reasons: list[str]) -> bool:
    return any("last known" in one for one in reasons)


def test_the_next_leader_plans_by_the_last_known_loads(
    kafka_pair: KafkaPair, new_instance: NewInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, samples, calls = f"away-{uuid4().hex[:8]}", tmp_path / "samples.json", tmp_path / "calls"
    make_topic(kafka_pair.source.address, name, len(RATES))
    samples.write_text(json.dumps(RATES))
    calls.touch()
    paths = [str(install(tmp_path / "packages")), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    instances = [
        new_instance(
            one,
            mirror__leader__load_provider="file",
            mirror__leader__load_provider_options=json.dumps({"path": str(samples), "calls": str(calls)}),
            mirror__leader__task_capacity_bytes_per_second="10000",
            mirror__leader__replan_interval_seconds="1",
            mirror__leader__return_delay_seconds="0",
        )
        for one in ("one", "two", "three")
    ]
    first, second, third = instances
    wait_until(lambda: len(first.rest.get("/v1/instances")) == 3, "all instances have joined")
    assert first.is_leading()
    create_datastream(first, name, name)
    wait_until(lambda: len(tasks(first)) == len(RATES), "it is planned")
    made = calls.stat().st_size
    wait_until(lambda: calls.stat().st_size > made + OBSERVED, "its loads are observed")
    before = tasks(first)
    assert len({task for task, _ in before.values()}) == 2
    samples.unlink()
    wait_until(
        lambda: is_by_last_known(
            first.rest.post("/v1/rebalance", {"datastream": name, "dry_run": True})["reasons"]
        ),
        "the leader plans by the last known loads",
    )
    assert dry_runs(first, name) == dry_runs(second, name) == dry_runs(third, name)

    first.kill()
    wait_until(second.is_leading, "the next instance leads")
    wait_until(lambda: all(home != "one" for _, home in tasks(second).values()), "all tasks have moved")
    assert dry_runs(second, name) == dry_runs(third, name)
    after = tasks(second)
    assert {one: task for one, (task, _) in after.items()} == {one: task for one, (task, _) in before.items()}
    stayed = {one: home for one, home in before.items() if home[1] != "one"}
    assert stayed.items() <= after.items()
    asked = third.rest.post("/v1/rebalance", {"datastream": name, "full": True})["operation"]["id"]
    wait_until(lambda: third.rest.get(f"/v1/operations/{asked}")["state"] == "done", "it is planned again")
    planning = second.rest.get(f"/v1/datastreams/{name}")["planning"]
    assert is_by_last_known(planning["reasons"])
    assert (planning["required_tasks"], planning["unknown"]) == (2, 0)
    assert len({task for task, _ in tasks(second).values()}) == 2
    heavy = [task for one, (task, _) in tasks(second).items() if int(one.rpartition("-")[2]) < 3]
    assert max(heavy.count(one) for one in heavy) == 2
