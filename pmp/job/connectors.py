"""Finds Spark's connectors to Kafka and Avro, which the PySpark wheel lacks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pyspark

from mirror.errors import ConfigError
from pmp.settings import JobSettings

CONNECTORS: Final = "SPARK_CONNECTORS"
"""Environment variable with the paths of the connectors' jars, separated by commas.

deploy/spark/submit.sh reads it too.
"""

_LOCAL_ADDRESS: Final = "SPARK_LOCAL_IP"
_FIRST: Final = "spark-sql-kafka-*.jar"


def connectors(settings: JobSettings) -> list[str]:
    """Return the paths of Spark's connectors; none if this process does not start Spark.

    spark-submit supplies its own connectors. The result is empty if Spark's own folder contains the
    connectors. If Spark runs in local mode, also make Spark listen on loopback only. Raises ConfigError if no
    connectors are found.
    """
    if not settings.master:
        return []
    if settings.master.startswith("local"):
        os.environ.setdefault(_LOCAL_ADDRESS, "127.0.0.1")
    paths = [path for path in os.environ.get(CONNECTORS, "").split(",") if path]
    missing = [path for path in paths if not Path(path).is_file()]
    if missing:
        raise ConfigError(f"files of {CONNECTORS} do not exist: {', '.join(missing[:3])}")
    if not paths and not any(_home().glob(_FIRST)):
        raise ConfigError(
            "Spark has no connectors to Kafka and Avro",
            advice=f"set {CONNECTORS} to the paths of their jars; headrace-dev spark-env prints them",
        )
    return paths


def _home() -> Path:
    """Return the folder whose jars Spark always loads."""
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    return Path(home) / "jars"
