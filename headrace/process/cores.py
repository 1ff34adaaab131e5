"""Determines how many CPU cores this process may use, which can be fewer than the machine has."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
_MEMBERSHIP: Final = Path("/proc/self/cgroup")
_VERSION_1: Final = ("quota", "period")


def usable_cores(groups: Path = _GROUPS, membership: Path = _MEMBERSHIP) -> int:
    """Return the number of cores on which this process may run, at least 1.

    CPU quotas of control groups, for example of a container, limit the number. Fractions are rounded up.

    `groups`: mount point of control groups. `membership`: file that lists the control groups of this process
    (`cgroups(7)`).
    """
    if sys.platform == "linux":
        bound = len(os.sched_getaffinity(0))
    else:
        bound = os.cpu_count() or 1
    return max(1, min([bound, *map(math.ceil, _allowed(groups, membership))]))


def _allowed(groups: Path, membership: Path) -> Iterator[float]:
    """Yield the CPU quotas of all control groups that contain this process, in cores.

    In a container that sees only its own control groups, these are directly at the mount point, regardless of
    the paths in `membership`.
    """
    yield from _limit(groups)
    yield from _limit(groups / "cpu")
    for line in _text(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "cpu", "cpu,cpuacct", "cpuacct,cpu"):
            folder = groups / controllers / path.strip("/")
            while groups in folder.parents:
                yield from _limit(folder)
                folder = folder.parent


def _limit(folder: Path) -> Iterator[float]:
    """Yield the CPU quota of one control group in cores; nothing if it has none.

    The quota is `cpu.max` (version 2), or `cpu.cfs_quota_us` divided by `cpu.cfs_period_us` (version 1).
    "max" and -1 mean no limit.
    """
    text = _text(folder / "cpu.max") or " ".join(_text(folder / f"cpu.cfs_{name}_us") for name in _VERSION_1)
    words = text.split()
    if len(words) == len(_VERSION_1) and all(word.isdigit() for word in words):
        yield int(words[0]) / int(words[1])


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="surrogateescape")
    except OSError:
        return ""  # no controller or no control groups: no limit
