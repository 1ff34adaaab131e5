"""Archives of a server's classes. A JVM maps them into memory instead of reading and verifying class files.

An archive fits exactly one Java and one class path. A server without a matching archive starts without one,
and the JVM ignores a damaged one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from stack.errors import ServerDied
from stack.folders import alone_in, cache_folder, naming_a_full_disk
from stack.jars.java import JavaRuntime
from stack.process.managed_process import ManagedProcess

_HEAP_OF_THE_MAKER: Final = "-Xmx512m"


def archive_file(java: JavaRuntime, class_path: str) -> Path:
    """Return the path of the class archive for the given classes and Java; the file may not exist."""
    parts = [str(java.executable.resolve()), *map(_mark, (java.home / "release", java.executable.resolve()))]
    for jar in class_path.split(os.pathsep):
        parts += [jar, _mark(Path(jar))]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return cache_folder() / "classes" / f"{digest[:32]}.jsa"


def archive_options(java: JavaRuntime, class_path: str) -> list[str]:
    """Return the JVM option to use the archive; empty if there is none."""
    file = archive_file(java, class_path)
    return [f"-XX:SharedArchiveFile={file}"] if file.exists() else []


def make_archive(java: JavaRuntime, class_path: str, list_classes: Callable[[Path], None]) -> None:
    """Make the archive unless it exists. If several processes need the archive at the same time, one makes it
    and the others wait.

    `list_classes` runs the program with `-XX:DumpLoadedClassList` set to the given file. Raises the errors of
    `list_classes`, and ServerDied if the JVM makes no archive.
    """
    file = archive_file(java, class_path)
    with naming_a_full_disk(file.parent, "archiving classes"), alone_in(file.parent):
        if file.exists():
            return
        classes, arriving = file.with_suffix(".list"), file.with_suffix(".arriving")
        try:
            list_classes(classes)
            _dump(java, class_path, classes, arriving)
            arriving.replace(file)
        finally:
            classes.unlink(missing_ok=True)
            arriving.unlink(missing_ok=True)


def _dump(java: JavaRuntime, class_path: str, classes: Path, file: Path) -> None:
    files = (f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={file}")
    options = ("-Xshare:dump", _HEAP_OF_THE_MAKER, "-XX:+UseSerialGC", "-XX:-UsePerfData")
    line = [str(java.executable), *options, *files, "-cp", class_path]
    log = file.with_suffix(".log")
    log.unlink(missing_ok=True)
    with ManagedProcess("archiving classes", line, log_file=log, grace_seconds=0) as process:
        code = process.wait()
    if code != 0 or not file.exists():
        raise ServerDied(f"{java.executable} failed to archive classes (status {code}); see {log}")
    log.unlink()


def _mark(file: Path) -> str:
    """Return the size and modification time of a jar, by which the JVM recognizes it; empty without a
    file."""
    try:
        known = file.stat()
    except FileNotFoundError:
        return ""
    return f"{known.st_size} {known.st_mtime_ns}"
