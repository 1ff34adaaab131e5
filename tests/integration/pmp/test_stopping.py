"""`headrace pmp run` as a process: signals to all of its processes, a dying Spark, an unreachable cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from stack.jars.spark import job_environment
from tests.metrics_data import fresh_name
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.servers import KafkaPair, NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]


class Job:
    """The command in a new process group, and its output."""

    def __init__(self, folder: Path, out: str, **clusters: str) -> None:
        self.spark_log = folder / "spark.log"
        prefix = fresh_name("stopping")
        config = folder / "headrace.toml"
        config.write_text(
            "\n".join(
                [
                    f'[pmp]\noutput_cluster = "out"\ntopic = "{prefix}-metrics"',
                    f'hourly_topic = "{prefix}-hourly"\ndead_letter_topic = "{prefix}-dead"',
                    f'[pmp.job]\ncheckpoint_folder = "{folder / "checkpoint"}"\nquick_start = true',
                    f'spark_log = "{self.spark_log}"\ntrigger_interval_seconds = 0.2',
                    "[pmp.rollup]\nenabled = false\n[pinot.retention_days]\npartitionMetrics = 3650",
                    f'[clusters.out]\nbootstrap_servers = "{out}"',
                    *(
                        f'[clusters.{name}]\nbootstrap_servers = "{address}"\n[pmp.clusters.{name}]'
                        for name, address in clusters.items()
                    ),
                ]
            )
        )
        self._said = folder / "said.log"
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headrace", "pmp", "run", "--config", str(config)],
                env={**os.environ, **job_environment()},
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._said.read_text()

    def events(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.said.splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    def has_logged(self, event: str) -> bool:
        assert self.process.poll() is None, self.said
        return bool(self.events(event))

    def ended(self) -> int:
        code = self.process.wait(PATIENCE_SECONDS)
        assert "Traceback" not in self.said, self.said
        assert "\tat " not in self.said, self.said
        return code


@contextmanager
def a_job(folder: Path, out: str, **clusters: str) -> Iterator[Job]:
    job = Job(folder, out, **clusters)
    try:
        yield job
    finally:
        if job.process.poll() is None:
            os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_to_all_processes_is_a_stop(
    kafka_pair: KafkaPair, tmp_path: Path, number: signal.Signals
) -> None:
    address = kafka_pair.source.address
    with a_job(tmp_path, address, east=address, west=address) as job:
        wait_until(lambda: len(job.events("reading samples")) == 2)
        os.killpg(job.process.pid, number)
        assert job.ended() == 0, job.said
        assert not job.events("cannot read cluster")


def test_a_stop_signal_while_spark_starts_is_a_stop(kafka_pair: KafkaPair, tmp_path: Path) -> None:
    address = kafka_pair.source.address
    with a_job(tmp_path, address, east=address) as job:
        wait_until(lambda: psutil.Process(job.process.pid).children())
        os.killpg(job.process.pid, signal.SIGTERM)
        assert job.ended() == 0, job.said


def test_a_spark_that_dies_is_one_line_and_exit_code_1(kafka_pair: KafkaPair, tmp_path: Path) -> None:
    address = kafka_pair.source.address
    with a_job(tmp_path, address, east=address) as job:
        wait_until(lambda: job.has_logged("reading samples"))
        (java,) = [
            child
            for child in psutil.Process(job.process.pid).children(recursive=True)
            if "java" in child.name()
        ]
        java.kill()
        assert job.ended() == 1
        assert "headrace: Spark ended" in job.said
        assert str(job.spark_log) in job.said


def test_a_cluster_that_is_away_is_one_line_and_its_return_another(
    kafka_pair: KafkaPair, new_kafka: NewKafka, tmp_path: Path
) -> None:
    out, late = kafka_pair.destination.address, new_kafka()
    late.kill()
    with a_job(tmp_path, out, late=late.address) as job:
        wait_until(lambda: job.has_logged("cannot read cluster"))
        wait_until(lambda: job.spark_log.read_text().count("TimeoutException") >= 2, "a second attempt")
        late.start()
        wait_until(lambda: job.has_logged("reading cluster again"))
        os.kill(job.process.pid, signal.SIGTERM)
        assert job.ended() == 0
    (begun,), (over,) = job.events("cannot read cluster"), job.events("reading cluster again")
    assert begun["cluster"] == over["cluster"] == "late"
    assert str(job.spark_log) in begun["advice"]
    assert over["failures"] >= 1
