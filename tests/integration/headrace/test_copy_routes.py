"""Topics that `headrace copy` does not copy: a cluster to itself, its own copies, Headrace's own topics."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.copies import Clusters, records
from tests.engines import write
from tests.kafka_data import counts, make_topic
from tests.patience import PATIENCE_SECONDS
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]


@pytest.fixture
def clusters(kafka_pair: KafkaPair, tmp_path: Path) -> Clusters:
    return Clusters(kafka_pair, tmp_path)


def test_a_cluster_is_not_copied_onto_itself_nor_headraces_own_topics_by_accident(clusters: Clusters) -> None:
    """Two names of one cluster, and copies within it, are detected before anything is written."""
    topic, other_name = f"{clusters.prefix}-t", f"localhost:{clusters.source.rpartition(':')[2]}"
    make_topic(clusters.source, topic, 1, retention_ms="-1")
    write(clusters.source, topic, records(10, 1))
    here = ("--until-end", "--destination", other_name)
    code, _, told = clusters.run("copy", *here, "--rename", "*")
    assert code != 0
    assert "onto themselves" in told
    command = [sys.executable, "-m", "headrace", "copy", "--source", clusters.source, *here, "--json"]
    chosen = ["--topics", f"{clusters.prefix}-.*", "--rename", "*-x"]
    environment = {**os.environ, "HEADRACE_MIRROR__PROGRESS_TOPIC": f"{clusters.prefix}-own"}

    def copied(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *chosen, *more],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            env=environment,
            check=False,
        )

    first = copied()
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["created_topics"] == [f"{topic}-x"]
    again = copied()
    assert again.returncode != 0
    assert f"{topic}-x" in again.stderr
    assert "--exclude" in again.stderr
    assert copied("--exclude", ".*-x").returncode == 0
    assert counts(clusters.source, [f"{topic}-x"])[f"{topic}-x"] >= 10
