"""The whole stack of servers: up, down, status, addresses.

`up` starts all servers that do not run, concurrently, each as soon as its jars are available. Afterwards, all
servers are ready; if a server failed, `up` has stopped all servers that it had started.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from stack.blueprint import NAMES, ServerResources, StackAddresses, addresses_of, build
from stack.errors import AlreadyBusy, NotInTime, ServerDied, UnknownName
from stack.folders import naming_a_full_disk, require_space, stack_home
from stack.jars import jar_sets
from stack.ports import StackPorts
from stack.process.parallel import for_each
from stack.process.records import ProcessRecord, read_record, write_record
from stack.process.wait import wait_until
from stack.server import Server

_JARS_OF: Final = {"source": "kafka", "destination": "kafka", "pinot": "pinot"}
_NEEDED_BYTES: Final = 500_000_000
_SERVING_TIMEOUT_SECONDS: Final = 180.0
_TICK_SECONDS: Final = 0.2
Report = Callable[[str], None]


class Lifetime(enum.Enum):
    """Lifetime of servers: with the process that starts them, or until they are stopped."""

    HELD = "held"
    """Servers end with the process that started them, however it ends."""
    RELEASABLE = "releasable"
    """Servers end with the process that started them until `Stack.release()`, and outlive it afterwards."""
    DETACHED = "detached"
    """Servers end with the process that started them while `up` runs, and outlive it afterwards."""


@dataclass(frozen=True)
class ServerStatus:
    """State of one server, which `status` prints as one line."""

    name: str
    state: str
    """`up`, `down`, `not ready` (runs but does not serve) or `died` (was up and was not stopped)."""
    address: str
    pid: int | None = None
    lacks: str = ""
    """Reason why the server is not ready; empty otherwise."""
    memory_mib: int | None = None
    """Resident memory of the process in MiB."""
    log_file: str = ""


class Stack:
    """The servers under one home folder."""

    def __init__(
        self,
        home: Path | None = None,
        ports: StackPorts | None = None,
        *,
        lifetime: Lifetime = Lifetime.HELD,
        machine: ServerResources | None = None,
        report: Report = lambda _: None,
    ) -> None:
        """`ports`: None uses the ports of the last `up` in this home, or the default ports."""
        self.home = (home or stack_home()).absolute()
        self._ports_file = self.home / "ports.json"
        self.ports = ports or self._remembered() or StackPorts()
        self.lifetime = lifetime
        self._report = report
        self.servers: Mapping[str, Server] = build(self.home, self.ports, machine or ServerResources())
        self._mine: set[str] = set()

    def up(self, names: Iterable[str] = (), *, fresh: bool = False) -> list[ServerStatus]:
        """Start the given servers (default all) that do not run; `fresh` stops and wipes them first.

        Raises the errors of a server's start, JarsUnavailable and its subclasses, AlreadyBusy and
        UnknownName, after stopping the servers that this call had started.
        """
        wanted = self._checked(names)
        with self._exclusively():
            self._require_same_ports()
            if fresh:
                self._down(wanted)
                for_each(wanted, lambda name: self.servers[name].wipe())
            missing = [name for name in wanted if not self._is_running(name)]
            self._start(missing)
            for_each([name for name in wanted if name not in missing], self._require_serving)
        return self.status(wanted)

    def down(self, names: Iterable[str] = ()) -> list[ServerStatus]:
        """Stop the given servers (default all), whichever process started them, and wait for their end."""
        wanted = self._checked(names)
        with self._exclusively():
            self._down(wanted)
        return self.status(wanted)

    def release(self) -> list[str]:
        """Release the servers that this object started, so that they outlive the process.

        Return the names of the released servers; servers that have already ended are omitted.
        """
        kept = []
        for name in sorted(self._mine):
            try:
                self.servers[name].release()
            except ServerDied as error:
                self._report(str(error))
            else:
                kept.append(name)
        self._mine.clear()
        return kept

    def status(self, names: Iterable[str] = ()) -> list[ServerStatus]:
        """Return the state of the given servers (default all); checks the readiness of running ones."""
        wanted = self._checked(names)
        found: dict[str, ServerStatus] = {}
        for_each(wanted, lambda name: found.update({name: self._status_of(name)}))
        return [found[name] for name in wanted]

    def addresses(self) -> StackAddresses:
        """Return the addresses of the servers, including stopped ones."""
        return addresses_of(self.ports)

    def server(self, name: str) -> Server:
        """Return one of the servers. Raises UnknownName."""
        return self.servers[self._checked([name])[0]]

    def __enter__(self) -> Stack:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the servers that this object started and has not released."""
        self._end_mine()

    def _start(self, names: list[str]) -> None:
        if not names:
            return
        require_space(
            self.home, _NEEDED_BYTES, "the stack", "free some space, or choose another folder with --home"
        )
        cancelled = threading.Event()
        with ThreadPoolExecutor(len(names)) as pool:
            results = [pool.submit(self._start_one, name, cancelled) for name in names]
            with ExitStack() as undo:
                undo.callback(self._mine.difference_update, names)
                undo.callback(for_each, names, lambda name: self.servers[name].kill())
                undo.callback(wait, results)
                undo.callback(cancelled.set)
                _first_failure(results)
                self._remember()
                for name in names:
                    write_record(self._record_file(name), ProcessRecord.of(name, self.servers[name].pid))
                self._mine.update(names)
                if self.lifetime is Lifetime.DETACHED:
                    self.release()
                undo.pop_all()

    def _start_one(self, name: str, cancelled: threading.Event) -> None:
        server = self.servers[name]
        if name in _JARS_OF:
            jar_sets.fetch([_JARS_OF[name]], self._report, cancelled)
        with naming_a_full_disk(server.folder, f"starting {name}"):
            server.launch(releasable=self.lifetime is not Lifetime.HELD)
        server.wait_until_ready(cancelled=cancelled)
        self._report(f"{name}: ready at {server.address}")

    def _require_serving(self, name: str) -> None:
        """Wait until a server that is already running is ready. Raises NotInTime."""
        server = self.servers[name]
        try:
            wait_until(lambda: not server.lacks(), _SERVING_TIMEOUT_SECONDS)
        except NotInTime as error:
            raise NotInTime(
                f"{name} is running but not ready: {server.lacks()}",
                advice=f"see headrace-dev stack logs {name}, or restart the server with down and up",
            ) from error
        self._report(f"{name}: already running at {server.address}")

    def _down(self, names: Iterable[str]) -> None:
        for_each(list(names), self._end)

    def _end(self, name: str) -> None:
        server = self.servers[name]
        record = read_record(self._record_file(name))
        if name in self._mine:
            server.stop()
            self._mine.discard(name)
        elif record is not None:
            record.end(server.grace_seconds)
        self._record_file(name).unlink(missing_ok=True)

    def _end_mine(self) -> None:
        for_each(sorted(self._mine), self._end)

    def _is_running(self, name: str) -> bool:
        record = read_record(self._record_file(name))
        return record is not None and record.is_alive()

    def _status_of(self, name: str) -> ServerStatus:
        server = self.servers[name]
        record = read_record(self._record_file(name))
        log = str(server.log_file)
        if record is None:
            return ServerStatus(name, "down", server.address, log_file=log)
        memory_mib, lacks = record.memory_mib(), server.lacks()
        if memory_mib is None:
            return ServerStatus(name, "died", server.address, log_file=log)
        state = "not ready" if lacks else "up"
        return ServerStatus(name, state, server.address, record.pid, lacks, memory_mib, log)

    def _record_file(self, name: str) -> Path:
        return self.home / "running" / f"{name}.json"

    def _checked(self, names: Iterable[str]) -> list[str]:
        wanted = list(dict.fromkeys(names))
        for name in wanted:
            if name not in NAMES:
                raise UnknownName(f"unknown server {name!r}", advice=f"choose from {', '.join(NAMES)}")
        return wanted or list(NAMES)

    def _remembered(self) -> StackPorts | None:
        try:
            return StackPorts(**json.loads(self._ports_file.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def _remember(self) -> None:
        self._ports_file.write_text(json.dumps(asdict(self.ports), indent=1), encoding="utf-8")

    def _require_same_ports(self) -> None:
        before = self._remembered()
        if before not in (None, self.ports) and any(self._is_running(name) for name in NAMES):
            raise AlreadyBusy(
                f"servers of {self.home} run on other ports",
                advice="stop these servers first with headrace-dev stack down, or use another --home",
            )

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        self.home.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.home / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise AlreadyBusy(
                    f"another process is changing the stack in {self.home}", advice="wait for it to end"
                ) from error
            yield
        finally:
            os.close(lock)


def _first_failure(results: list) -> None:  # type: ignore[type-arg]
    """Wait until all starts are done or one has failed, and raise its error. Waits in steps, so that signals
    are handled."""
    done, pending = wait(results, timeout=_TICK_SECONDS, return_when=FIRST_EXCEPTION)
    while pending and not any(result.exception() for result in done):
        done, pending = wait(results, timeout=_TICK_SECONDS, return_when=FIRST_EXCEPTION)
    for result in done:
        result.result()
