"""What a checkpoint folder was begun with and cannot be changed: a small file beside Spark's own.

It is read and written by Hadoop's file systems, so that it works wherever Spark can keep a checkpoint.
"""

from __future__ import annotations

import json
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from mirror.errors import AnalyticsError, ConfigError

_FILE: Final = "job.json"
_BEFORE_FACTS: Final = {"buckets": 16}
"""Of a checkpoint without the file."""


def hold_to_facts(session: SparkSession, folder: str, buckets: int) -> None:
    """Note what a new checkpoint folder is begun with. Raises ConfigError when an old one began otherwise."""
    try:
        kept = _kept(session, folder)
        if kept is None:
            _write(session, f"{folder}/{_FILE}", json.dumps({"buckets": buckets}))
            return
    except Py4JJavaError as error:
        what = str(error.java_exception.toString()).splitlines()[0]
        raise AnalyticsError(f"the checkpoint folder {folder} cannot be used: {what}") from error
    if kept["buckets"] != buckets:
        raise ConfigError(
            f"pmp.job.buckets is {buckets}, but the checkpoint {folder} was begun with {kept['buckets']}",
            advice=f"set it to {kept['buckets']}, or begin another pmp.job.checkpoint_folder: it reads the "
            "sample topics from their beginning, and one growth a partition is unknown",
        )


def _kept(session: SparkSession, folder: str) -> dict[str, int] | None:
    """None for a folder that nobody has begun."""
    if _exists(session, f"{folder}/{_FILE}"):
        found: dict[str, int] = json.loads(_read(session, f"{folder}/{_FILE}"))
        return found
    return _BEFORE_FACTS if _exists(session, f"{folder}/samples") else None


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
    """The file system of a path, and the path as Hadoop spells it."""
    context: Any = session.sparkContext
    java, configuration = context._jvm, context._jsc.hadoopConfiguration()  # noqa: SLF001 no other way
    place = java.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(configuration), place
