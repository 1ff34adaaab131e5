"""Variables with which the Spark job of the metrics provider runs on this machine."""

from __future__ import annotations

from typing import Final

from stack.jars.download import Report
from stack.jars.jar_sets import jar_files, silent
from stack.jars.java import spark_environment

_CONNECTORS: Final = "SPARK_CONNECTORS"
"""Variable with the paths of the Kafka and Avro connectors, separated by commas."""


def job_environment(report: Report = silent) -> dict[str, str]:
    """Return the variables for Java, Python and the connectors. Fetches missing jars.

    Raises JarsUnavailable and its subclasses, DiskFull, JavaMissing, Cancelled.
    """
    return {**spark_environment(), _CONNECTORS: ",".join(map(str, jar_files("spark", report)))}
