"""Protects settings that must not change after a checkpoint of the Spark job was created.

A small file in the checkpoint folder stores these settings. The file is accessed through Hadoop's file
systems, so it can be stored wherever Spark can store a checkpoint.
"""

from __future__ import annotations

import json
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from mirror.errors import AnalyticsError, ConfigError

_FILE: Final = "job.json"
_BEFORE_FACTS: Final = {"buckets": 16}
"""Assumed settings of a checkpoint folder without this file."""


def hold_to_facts(session: SparkSession, folder: str, buckets: int) -> None:
    """Store the settings of a new checkpoint, or compare them with the settings of the existing one.

    Raises ConfigError if an existing checkpoint has other settings.
    """
    try:
        kept = _kept(session, folder)
        if kept is None:
            _write(session, f"{folder}/{_FILE}", json.dumps({"buckets": buckets}))
            return
    except Py4JJavaError as error:
        reason = str(error.java_exception.toString()).splitlines()[0]
        raise AnalyticsError(f"cannot use the checkpoint folder {folder}: {reason}") from error
    if kept["buckets"] != buckets:
        raise ConfigError(
            f"pmp.job.buckets is {buckets}, but the checkpoint {folder} was created with {kept['buckets']}",
            advice=f"set it to {kept['buckets']}, or set a new pmp.job.checkpoint_folder: the job then reads "
            "the sample topics again from their start, and the first sample of each partition has no growth",
        )


def _kept(session: SparkSession, folder: str) -> dict[str, int] | None:
    """Return the settings stored in the checkpoint folder, None for a new folder.

    The folder is new as long as no query has used it: a damaged file then comes from an interrupted first
    start. Raises ConfigError for a damaged file in a used folder.
    """
    path, is_used = f"{folder}/{_FILE}", _exists(session, f"{folder}/samples")
    if not _exists(session, path):
        return _BEFORE_FACTS if is_used else None
    try:
        return {"buckets": int(json.loads(_read(session, path))["buckets"])}
    except (Py4JJavaError, ValueError, LookupError, TypeError) as error:
        if not is_used:
            return None
        if isinstance(error, Py4JJavaError):
            raise
        raise ConfigError(
            f"cannot parse {path}", advice='write {"buckets": N} to it; N: pmp.job.buckets of the first run'
        ) from error


def _exists(session: SparkSession, path: str) -> bool:
    files, place = _place(session, path)
    return bool(files.exists(place))


def _read(session: SparkSession, path: str) -> str:
    files, place = _place(session, path)
    stream = files.open(place)
    try:
        return bytes(stream.readAllBytes()).decode()
    finally:
        stream.close()


def _write(session: SparkSession, path: str, text: str) -> None:
    files, place = _place(session, path)
    stream = files.create(place)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def _place(session: SparkSession, path: str) -> tuple[Any, Any]:
    """Return the file system of a path, and the path as an object of Hadoop."""
    context: Any = session.sparkContext
    java, configuration = context._jvm, context._jsc.hadoopConfiguration()  # noqa: SLF001 no other way
    place = java.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(configuration), place
