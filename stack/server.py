"""Base class of servers: configuration, start, readiness, stop and kill.

A server keeps its ports, configuration and data from `stop()` or `kill()` to the next `start()`.
"""

from __future__ import annotations

import re
import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from stack import ports
from stack.errors import Cancelled, NotInTime, ServerDied
from stack.jars.class_archive import archive_options, make_archive
from stack.jars.java import JavaRuntime, find_java
from stack.process.managed_process import ManagedProcess

LOG_LINES_SHOWN: Final = 15
_LOG_LINES_SEARCHED: Final = 200
_LOG_KEPT_BYTES: Final = 16_000_000
_TICK_SECONDS: Final = 0.05
_START_TIMEOUT_SECONDS: Final = 180.0
_ADDRESS_IN_USE: Final = re.compile(r"Address already in use|BindException|Failed to bind")
_LOG4J: Final = """\
<Configuration status="error">
 <Appenders>
  <Console name="out"><PatternLayout pattern="%d{{ISO8601}} %-5p %c{{1}} %m%n"/></Console>
 </Appenders>
 <Loggers><Root level="{level}"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


@dataclass(frozen=True)
class Jvm:
    """Heap, Java and jars with which a server runs."""

    heap_mib: int
    java: JavaRuntime | None = None
    """If the Java is None, it is searched for at the first start of the server."""
    quick_start: bool = False
    """Use only the JVM's first compiler: half the processor time of a start, slower in the long run."""
    options: tuple[str, ...] = ()
    """Additional options for the server's JVM."""
    jar_set: str = ""
    """Set of jars of another release of the server; empty: the default release."""

    def runtime(self) -> JavaRuntime:
        """Return the Java to use. Raises JavaMissing."""
        return self.java or find_java()

    def arguments(self) -> list[str]:
        """Return the launcher and its options. Raises JavaMissing."""
        java = self.runtime()
        return [
            *(str(java.executable), f"-Xmx{self.heap_mib}m", "-XX:+UseSerialGC", "-XX:-UsePerfData"),
            *("-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true"),
            *(["-XX:TieredStopAtLevel=1"] if self.quick_start else []),
            *self.options,
        ]


class Server(ABC):
    """One server process on loopback, with its files under one folder."""

    grace_seconds: float = 10.0
    """Time between SIGTERM and SIGKILL at a stop; 0 kills immediately."""
    log_level: str = "info"

    def __init__(self, name: str, folder: Path, jvm: Jvm) -> None:
        self.name = name
        self.folder = folder.absolute()
        self.jvm = jvm
        self.log_file = self.folder / f"{name}.log"
        self._process: ManagedProcess | None = None

    @property
    @abstractmethod
    def address(self) -> str:
        """Address for clients, `host:port`."""

    @abstractmethod
    def ports(self) -> Mapping[str, int]:
        """Map each role to the port on which the server listens for it."""

    @abstractmethod
    def _prepare(self) -> None:
        """Write the configuration. The folder of the server exists."""

    @abstractmethod
    def _class_path(self) -> str:
        """Return the jars with the server's classes."""

    def _options(self) -> Sequence[str]:
        """Return JVM options besides the class path."""
        return ()

    @abstractmethod
    def _program(self) -> Sequence[str]:
        """Return main class and arguments."""

    @abstractmethod
    def lacks(self) -> str:
        """Return the reason why the server is not ready; empty if it is."""

    @property
    def pid(self) -> int:
        """Process id of the server itself. Raises ServerDied before the first start."""
        return self._held().pid

    def is_alive(self) -> bool:
        """Return whether the server's process runs."""
        return self._process is not None and self._process.is_alive()

    def start(self, cancelled: threading.Event | None = None) -> None:
        """Launch and wait until ready. Raises the errors of `launch` and `wait_until_ready`."""
        self.launch()
        self.wait_until_ready(cancelled=cancelled)

    def launch(self, *, releasable: bool = False) -> None:
        """Start the process and return immediately; no effect if the server runs.

        Raises PortTaken, JavaMissing, JarsUnavailable and its subclasses, DiskFull, ServerDied.
        """
        if self.is_alive():
            return
        self._require_ports()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._keep_log_small()
        self._prepare()
        self._process = ManagedProcess(
            self.name,
            self.java_command(self._options(), self._program()),
            log_file=self.log_file,
            directory=self.folder,
            grace_seconds=self.grace_seconds,
        )
        self._process.start(releasable=releasable)

    def wait_until_ready(
        self, timeout_seconds: float = _START_TIMEOUT_SECONDS, cancelled: threading.Event | None = None
    ) -> None:
        """Wait until the server is ready.

        Raises ServerDied with the end of the server's log, PortTaken, NotInTime, Cancelled.

        Kills the server before raising NotInTime or Cancelled.
        """
        process = self._held()
        deadline = time.monotonic() + timeout_seconds
        lack = "not checked yet"
        while time.monotonic() < deadline:
            code = process.wait(_TICK_SECONDS)
            if code is not None:
                raise self._died(code)
            lack = self.lacks()
            if not lack:
                return
            if cancelled is not None and cancelled.is_set():
                self.kill()
                raise Cancelled(f"starting {self.name} was cancelled")
        self.kill()
        raise NotInTime(
            f"{self.name} is not ready after {timeout_seconds:g} s ({lack}); {log_shown(self.log_file)}"
        )

    def stop(self) -> None:
        """Stop the server in the way that suits its kind and wait until the process has ended. Idempotent."""
        if self._process is not None:
            if self.grace_seconds > 0:
                self._process.stop()
            else:
                self._process.kill()

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process has ended. Idempotent."""
        if self._process is not None:
            self._process.kill()

    def suspend(self) -> None:
        """Freeze the server: it keeps its connections but does not respond."""
        self._held().suspend()

    def resume(self) -> None:
        """Resume the server after `suspend`."""
        self._held().resume()

    def release(self) -> int:
        """Let a server launched as releasable outlive this process. Return the process id of the server."""
        return self._held().release()

    def wipe(self) -> None:
        """Remove the server's folder with configuration, data and log. The server must not be running."""
        assert not self.is_alive(), f"{self.name} is running"
        shutil.rmtree(self.folder, ignore_errors=True)

    def log_tail(self, lines: int = LOG_LINES_SHOWN) -> list[str]:
        """Return the last lines of the server's log."""
        return tail(self.log_file, lines)

    def java_command(self, options: Sequence[str], program: Sequence[str]) -> list[str]:
        """Return the command that runs `program`. The options of the JVM are passed in a file, so that `ps`
        shows a short command line."""
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        logging = self.folder / "log4j2.xml"
        logging.write_text(_LOG4J.format(level=self.log_level), encoding="utf-8")
        launcher, *mine = self.jvm.arguments()
        files = (f"-Djava.io.tmpdir={temporary}", f"-Dlog4j2.configurationFile={logging}")
        path = self._class_path()
        classes = [*archive_options(self.jvm.runtime(), path), "-cp", path]
        arguments = [*mine, *files, *classes, *options]
        return [launcher, f"@{_argument_file(self.folder, program[0], arguments)}", *program]

    def has_class_archive(self) -> bool:
        """Return whether the next start of the server uses a class archive."""
        return bool(archive_options(self.jvm.runtime(), self._class_path()))

    def make_class_archive(self) -> None:
        """Make a class archive unless it exists: start the server once, and kill it. The server must not be
        running.

        Raises the errors of `start`, and ServerDied if the JVM makes no archive.
        """
        usual = self.jvm

        def list_classes(file: Path) -> None:
            self.jvm = replace(usual, options=(*usual.options, f"-XX:DumpLoadedClassList={file}"))
            try:
                self.start()
            finally:
                self.kill()
                self.jvm = usual

        make_archive(usual.runtime(), self._class_path(), list_classes)

    def _held(self) -> ManagedProcess:
        if self._process is None:
            raise ServerDied(f"{self.name} has not been started")
        return self._process

    def _require_ports(self) -> None:
        advice = "stop that process, or move the whole stack with --port-offset"
        ports.require_free(self.name, self.ports(), advice)

    def _died(self, code: int) -> ServerDied:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        if _ADDRESS_IN_USE.search("\n".join(self.log_tail(_LOG_LINES_SEARCHED))):
            self._require_ports()
        return ServerDied(f"{self.name} {how} while starting; {log_shown(self.log_file)}")

    def _keep_log_small(self) -> None:
        if self.log_file.exists() and self.log_file.stat().st_size > _LOG_KEPT_BYTES:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))


def tail(file: Path, lines: int) -> list[str]:
    """Return the last lines of a text file; empty without a file."""
    if not file.exists():
        return []
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - lines * 400 - 4000))
        text = stream.read().decode("utf-8", errors="replace")
    return text.splitlines()[-lines:] if lines > 0 else []


def log_shown(file: Path) -> str:
    """Return the last lines of a log as part of an error message."""
    lines = tail(file, LOG_LINES_SHOWN) or ["(nothing)"]
    return f"the last lines of {file}:\n" + "\n".join(f"    {line}" for line in lines)


def _argument_file(folder: Path, main_class: str, arguments: Sequence[str]) -> Path:
    """Write a file from which Java reads one quoted argument per line."""
    file = folder / f"{main_class.rpartition('.')[2]}.options"
    quoted = (argument.replace("\\", "\\\\").replace('"', '\\"') for argument in arguments)
    file.write_text("".join(f'"{argument}"\n' for argument in quoted), encoding="utf-8")
    return file


def properties_text(values: Mapping[str, object]) -> str:
    """Return a Java properties file, one `key=value` per line."""
    return "".join(f"{key}={value}\n" for key, value in values.items())
