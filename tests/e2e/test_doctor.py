"""Test `headrace doctor` on a working set-up and on a broken one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any
from uuid import uuid4

import pytest

from tests.e2e.conftest import NewInstance
from tests.kafka_data import make_topic
from tests.mirrored import create_datastream
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]


def examined(instance: RunningInstance) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the findings."""
    command = [sys.executable, "-m", "headrace", "doctor", "--json", "--patience", "30s"]
    done = subprocess.run(
        [*command, "--at", instance.address],
        env=os.environ | instance.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def test_a_set_up_that_works_has_no_problem_and_settings_that_bite_are_named(
    kafka_pair: KafkaPair, new_instance: NewInstance
) -> None:
    topic = f"examined-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, 2, max_message_bytes="2000000")
    make_topic(kafka_pair.destination.address, f"copy.{topic}", 2)
    instance = new_instance("one")
    create_datastream(instance, "examined", topic)
    create_datastream(instance, "nothing", f"{topic}-missing")
    wait_until(lambda: instance.health()["is_well"], "the instance is healthy")
    code, findings = examined(instance)
    said = {(one["subject"], one["grade"]): one["sentence"] for one in findings}
    assert [one for one in findings if one["grade"] == "problem"] == []
    assert code == 0
    for subject in ("coordination store", "service", "cluster source", "cluster destination"):
        assert (subject, "ok") in said
    assert "up to 2000000" in said["datastream examined", "warning"]
    assert said["datastream nothing", "warning"] == "no topic matches"
