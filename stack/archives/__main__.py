"""The command `python -m stack.archives`.

`make` makes the archives, starting each server once; `check` reports by its exit code whether they exist.
There is no archive for Pinot, because making it would take as much time as it saves in a dozen starts.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from stack.blueprint import ServerResources, build
from stack.errors import StackError
from stack.jars.download import JarFolder
from stack.ports import StackPorts

_ARCHIVED = ("zookeeper", "source")


def main(arguments: list[str]) -> int:
    """Run `make` or `check`; print expected failures as one line."""
    if arguments not in (["make"], ["check"]):
        sys.stderr.write("usage: python -m stack.archives make|check\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="headrace-archives-") as folder:
        servers = build(Path(folder), StackPorts.free(), ServerResources(quick_start=True))
        try:
            if arguments == ["check"]:
                ready = not JarFolder("kafka").missing()
                return int(not (ready and all(servers[name].has_class_archive() for name in _ARCHIVED)))
            for name in _ARCHIVED:
                servers[name].make_class_archive()
        except StackError as error:
            sys.stderr.write(f"stack.archives: {error}\n")
            return 1
        except KeyboardInterrupt:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
