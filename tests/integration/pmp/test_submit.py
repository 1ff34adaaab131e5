"""The job on a separate Spark cluster, submitted by deploy/spark/submit.sh; and the manifests."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml

from headrace.settings import HeadraceSettings, load_settings
from pinot.tables import PARTITION_METRICS
from stack.ports import free_ports
from stack.process.managed_process import ManagedProcess
from tests.kafka_data import make_topic
from tests.metrics_data import a_sample, fresh_name, rows_in, write_samples
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import QUICK_JAVA
from tests.servers import KafkaPair
from tests.spark_cluster import master_state

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

DEPLOY = Path(__file__).parents[3] / "deploy" / "spark"
SPARK_HOME = Path(pyspark.__file__).parent
GUARDED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
}
"""Settings of the manifests, which keep the secret in a file."""
SECRET = {"spark.authenticate.secret": "of this test"}


@contextmanager
def a_spark_cluster(folder: Path, variables: dict[str, str]) -> Iterator[str]:
    """Start a standalone master with one worker of two cores; yield its address."""
    port, master_page, worker_page = free_ports(3)
    address = f"spark://127.0.0.1:{port}"
    guarded = [f"-D{key}={value}" for key, value in (GUARDED | SECRET).items()]
    java = [f"{variables['JAVA_HOME']}/bin/java", "-Xmx256m", *guarded, "-cp", f"{SPARK_HOME}/jars/*"]
    package = "org.apache.spark.deploy"
    master = [f"{package}.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    worker = [f"{package}.worker.Worker", "--host", "127.0.0.1", "--cores", "2", "--memory", "1g", address]
    processes = [
        ManagedProcess(
            "master", [*java, *master, "--webui-port", str(master_page)], variables, folder / "master"
        ),
        ManagedProcess(
            "worker",
            [*java, *worker, "--webui-port", str(worker_page), "--work-dir", str(folder / "work")],
            variables | {"SPARK_HOME": str(SPARK_HOME), "SPARK_SCALA_VERSION": "2.13"},
            folder / "worker",
        ),
    ]
    try:
        for process in processes:
            process.start()
        wait_until(lambda: master_state(master_page, "aliveworkers") == 1, "a master with a worker")
        yield address
    finally:
        for process in processes:
            process.kill()


def test_the_job_runs_on_a_cluster_that_authenticates_and_encrypts_and_stops_cleanly(
    kafka_pair: KafkaPair,
    spark_variables: dict[str, str],
    stack_jars: Callable[[str], tuple[Path, ...]],
    tmp_path: Path,
) -> None:
    address, prefix = kafka_pair.source.address, fresh_name("submitted")
    for topic in (f"__{prefix}", f"{prefix}-metrics", f"{prefix}-hourly", f"{prefix}-dead"):
        make_topic(address, topic)
    write_samples(address, f"__{prefix}", [a_sample(partition=p) for p in range(30)])
    config = tmp_path / "headrace.toml"
    config.write_text(
        f"""
        [clusters.destination]
        bootstrap_servers = "{address}"
        [clusters.east]
        bootstrap_servers = "{address}"
        [pmp]
        topic = "{prefix}-metrics"
        hourly_topic = "{prefix}-hourly"
        dead_letter_topic = "{prefix}-dead"
        [pmp.clusters.east]
        samples_topic = "__{prefix}"
        [pinot.retention_days]
        partitionMetrics = 3650
        [pmp.rollup]
        enabled = false
        [pmp.job]
        master = ""
        checkpoint_folder = "{tmp_path / "spark"}"
        """
    )
    variables = spark_variables | QUICK_JAVA
    environment = variables | {
        "PATH": f"{SPARK_HOME / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SPARK_CONNECTORS": ",".join(map(str, stack_jars("spark"))),
    }
    with a_spark_cluster(tmp_path, variables) as master:
        command = [str(DEPLOY / "submit.sh"), master, str(config), "--executor-memory", "600m"]
        command += [f"--conf={key}={value}" for key, value in (GUARDED | SECRET).items()]
        job = ManagedProcess("job", command, environment, tmp_path / "job.log", grace_seconds=30)
        job.start()
        try:
            rows: list[object] = []
            while len(rows) < 30:
                assert job.wait(0.5) is None, job.log_file.read_text()[-2000:]
                rows = [*rows_in(address, f"{prefix}-metrics", PARTITION_METRICS)]
            os.kill(job.pid, signal.SIGTERM)
            job.wait(PATIENCE_SECONDS)
            assert not job.is_alive()
        finally:
            job.kill()


def test_the_manifests_hold_a_configuration_that_is_valid(tmp_path: Path) -> None:
    documents: list[Any] = [
        yaml.safe_load(text) for text in (DEPLOY / "kubernetes.yaml").read_text().split("\n---\n")
    ]
    by_kind = {document["kind"]: document for document in documents}
    config = tmp_path / "headrace.toml"
    config.write_text(by_kind["ConfigMap"]["data"]["headrace.toml"])
    settings = load_settings(config)
    assert isinstance(settings, HeadraceSettings)
    pod = by_kind["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["metrics"] == settings.pmp.job.metrics_port
    assert f"--conf=spark.driver.port={ports['driver']}" in container["args"]
    assert f"--conf=spark.driver.blockManager.port={ports['blocks']}" in container["args"]
    assert {port["port"] for port in by_kind["Service"]["spec"]["ports"]} == set(ports.values())
    assert by_kind["Service"]["spec"]["selector"] == by_kind["Deployment"]["spec"]["selector"]["matchLabels"]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert settings.pmp.job.checkpoint_folder in mounts
    assert "--config=/etc/headrace/headrace.toml" in container["args"]
    given = [one.removeprefix("--conf=") for one in container["args"] if one.startswith("--conf=")]
    assert {f"{key}={value}" for key, value in GUARDED.items()} <= set(given)
    assert (DEPLOY / "entrypoint.sh").stat().st_mode & 0o111
