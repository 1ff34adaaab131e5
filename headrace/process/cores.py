"""How many processor cores are ours: a machine's are not always all of them."""

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
    """Cores that this process may run on, and no more than its control groups allow it the time of: what a
    container has been given. At least 1; a part of a core counts as one.

    `groups` is where control groups are mounted, `membership` the file that names ours (`cgroups(7)`).
    """
    if sys.platform == "linux":
        bound = len(os.sched_getaffinity(0))
    else:
        bound = os.cpu_count() or 1
    return max(1, min([bound, *map(math.ceil, _allowed(groups, membership))]))


def _allowed(groups: Path, membership: Path) -> Iterator[float]:
    """Cores' worth of time by each limit on us. A container that sees only its own groups finds them at the
    mount itself, whatever the names in `membership` say."""
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
    """The limit of one group: `cpu.max` of version 2, the quota of version 1; "max" and -1 are none."""
    text = _text(folder / "cpu.max") or " ".join(_text(folder / f"cpu.cfs_{name}_us") for name in _VERSION_1)
    words = text.split()
    if len(words) == len(_VERSION_1) and all(word.isdigit() for word in words):
        yield int(words[0]) / int(words[1])


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="surrogateescape")
    except OSError:
        return ""  # no such controller, or no control groups at all: no limit
