"""The jars of the servers: `class_path("kafka")` fetches missing ones and returns the class path."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from stack.jars.coordinates import SET_NAMES
from stack.jars.download import JarFolder, Report


def silent(_: str) -> None:
    """Do nothing with a progress report."""


def fetch(
    set_names: Iterable[str] = SET_NAMES,
    report: Report = silent,
    cancelled: threading.Event | None = None,
) -> None:
    """Fetch the sets in parallel; keeps existing jars.

    Raises JarsUnavailable and its subclasses, DiskFull, JavaMissing, UnknownName, Cancelled.
    """
    folders = [JarFolder(name) for name in dict.fromkeys(set_names)]
    event = cancelled or threading.Event()
    with ThreadPoolExecutor(max(1, len(folders))) as pool:
        results = [pool.submit(folder.fetch, report, event) for folder in folders]
        with ExitStack() as undo:
            undo.callback(event.set)
            for result in results:
                result.result()
            undo.pop_all()


def jar_files(set_name: str, report: Report = silent) -> tuple[Path, ...]:
    """Return the jars of a set; fetches missing ones. Raises as `fetch` does."""
    folder = JarFolder(set_name)
    folder.fetch(report, threading.Event())
    return folder.files()


def class_path(set_name: str, report: Report = silent) -> str:
    """Return the jars of a set as a class path. Raises as `fetch` does."""
    return os.pathsep.join(map(str, jar_files(set_name, report)))
