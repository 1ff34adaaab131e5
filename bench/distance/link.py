"""Two network namespaces joined by a link with a delay, a rate and packet loss."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

FAR_HOST = "10.77.0.1"
"""Address of the far end, as seen from the near end."""
_SOURCE = Path(__file__).with_name("delay.c")
_CLONE_NEWNET = 0x40000000
_NAME = re.compile(r"headrace-(?:near|far)-([0-9]+)")
"""Name of a namespace, with the id of the process that deletes it."""


class RigUnavailable(Exception):
    """The link cannot be built on this machine."""


@dataclass(frozen=True)
class Line:
    """Properties of a network link: delay, rate and packet loss."""

    one_way_ms: float
    mbit_per_s: float = 0
    """0: no limit but that of the machine."""
    loss_percent: float = 0


def require_rig() -> None:
    """Raise RigUnavailable without root, TUN devices, `ip` or a C compiler."""
    missing = [
        reason
        for reason, lacks in (
            ("root is required to create network namespaces", os.geteuid() != 0),
            ("/dev/net/tun does not exist", not Path("/dev/net/tun").exists()),
            ("the command `ip` is not installed", shutil.which("ip") is None),
            ("no C compiler `cc` found", shutil.which("cc") is None),
        )
        if lacks
    ]
    if missing:
        raise RigUnavailable("; ".join(missing))


@dataclass(frozen=True)
class Namespaces:
    """Names of the two network namespaces, and the program that joins them."""

    near: str
    far: str
    program: Path

    @contextmanager
    def joined(self, line: Line) -> Iterator[None]:
        """Join the two network namespaces for the duration of the context."""
        limits = [f"{line.one_way_ms:g}", f"{line.mbit_per_s:g}", f"{line.loss_percent:g}"]
        with subprocess.Popen(
            [str(self.program), self.far, self.near, *limits], stdout=subprocess.PIPE, text=True
        ) as link:
            try:
                assert link.stdout is not None
                if link.stdout.readline().strip() != "up":
                    raise RigUnavailable("the link between the namespaces did not come up")
                yield
            finally:
                link.kill()

    def enter_near(self) -> None:
        """Move this thread, and the threads and processes that it starts later, to the near end."""
        libc = ctypes.CDLL(None, use_errno=True)
        with Path(f"/run/netns/{self.near}").open() as namespace:
            if libc.setns(namespace.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter namespace {self.near}")

    def far_command(self, *command: str) -> list[str]:
        """Return the command line that runs a command at the far end."""
        return ["ip", "netns", "exec", self.far, *command]


def orphans(names: Iterable[str], is_running: Callable[[int], bool]) -> list[str]:
    """Return the names of namespaces whose process has ended without deleting them."""
    owners = {name: found for name in names if (found := _NAME.fullmatch(name)) is not None}
    return [name for name, found in owners.items() if not is_running(int(found[1]))]


def remove_orphans() -> None:
    """Delete the namespaces that killed runs have left, and end the processes in them."""
    folder = Path("/run/netns")
    names = sorted(one.name for one in folder.iterdir()) if folder.exists() else []
    for name in orphans(names, _is_running):
        inside = subprocess.run(["ip", "netns", "pids", name], check=True, capture_output=True, text=True)
        for process in map(int, inside.stdout.split()):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        subprocess.run(["ip", "netns", "delete", name], check=True)


def _is_running(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


@contextmanager
def namespaces(folder: Path) -> Iterator[Namespaces]:
    """Create both network namespaces, and compile the link program.

    The namespaces are deleted at the end of the context. Namespaces of killed runs are deleted first.
    """
    remove_orphans()
    program = folder / "delay"
    subprocess.run(["cc", "-O2", "-pthread", "-o", str(program), str(_SOURCE)], check=True)
    near, far = (f"headrace-{end}-{os.getpid()}" for end in ("near", "far"))
    made: list[str] = []
    try:
        for name in (near, far):
            subprocess.run(["ip", "netns", "add", name], check=True)
            made.append(name)
        yield Namespaces(near, far, program)
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], check=True)
