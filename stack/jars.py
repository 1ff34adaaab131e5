"""The jars of the servers: `class_path("kafka")` fetches what is missing and says where it is.

`python -m stack.jars fetch [SET …]` fetches ahead; `python -m stack.jars lock` renews the committed
lists after a version in `lock.py` has changed.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stack.coordinates import SET_NAMES
from stack.errors import StackError
from stack.fetching import JarFolder, Report
from stack.lock import renew


def _silent(_: str) -> None:
    return


def fetch(
    set_names: Iterable[str] = SET_NAMES,
    report: Report = _silent,
    cancelled: threading.Event | None = None,
) -> None:
    """Bring the sets side by side; nothing happens to what is here already.

    Raises JarsUnavailable and its kin, DiskFull, JavaMissing, UnknownName, Cancelled.
    """
    folders = [JarFolder(name) for name in dict.fromkeys(set_names)]
    event = cancelled or threading.Event()
    with ThreadPoolExecutor(max(1, len(folders))) as pool:
        results = [pool.submit(folder.fetch, report, event) for folder in folders]
        try:
            for result in results:
                result.result()
        except BaseException:
            event.set()
            raise


def jar_files(set_name: str, report: Report = _silent) -> tuple[Path, ...]:
    """The jars of a set, fetched first if need be. Raises as `fetch` does."""
    folder = JarFolder(set_name)
    folder.fetch(report, threading.Event())
    return folder.files()


def class_path(set_name: str, report: Report = _silent) -> str:
    """The jars of a set as a class path. Raises as `fetch` does."""
    return os.pathsep.join(map(str, jar_files(set_name, report)))


def _say(message: str) -> None:
    sys.stderr.write(f"{message}\n")


def main(arguments: list[str]) -> int:
    """`fetch [SET …]` or `lock [SET …]`; a foreseen failure is one line."""
    verb, names = (arguments or [""])[0], arguments[1:] or list(SET_NAMES)
    if verb not in ("fetch", "lock"):
        _say("usage: python -m stack.jars fetch|lock [kafka] [pinot] [spark]")
        return 2
    try:
        if verb == "lock":
            renew(names, _say)
        fetch(names, _say)
    except StackError as error:
        _say(f"stack.jars: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
