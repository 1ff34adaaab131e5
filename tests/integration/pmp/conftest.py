"""Spark session and tables shared by all tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from pinot.client import PinotClient
from pmp.job.spark_session import open_session
from pmp.settings import JobSettings
from stack.pinot import PinotServer
from tests.metrics_data import apply_tables, pinot_settings
from tests.patience import PATIENCE_SECONDS
from tests.servers import KafkaPair


@pytest.fixture(scope="session")
def spark(
    spark_variables: dict[str, str], stack_jars: Callable[[str], tuple[Path, ...]]
) -> Iterator[SparkSession]:
    """Start a local Spark with the Kafka and Avro connectors."""
    os.environ.update(spark_variables)
    jars = [str(path) for path in stack_jars("spark")]
    session = open_session(JobSettings(driver_memory="1g", quick_start=True), jars)
    yield session
    gateway = SparkContext._gateway
    session.stop()
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(PATIENCE_SECONDS)


@pytest.fixture(scope="session")
def pinot_client(pinot_server: PinotServer, kafka_pair: KafkaPair) -> Iterator[PinotClient]:
    """Return a client of the shared Pinot, whose tables ingest from the destination cluster."""
    apply_tables(pinot_server, kafka_pair.destination.address)
    client = PinotClient(pinot_settings(pinot_server))
    yield client
    client.close()
