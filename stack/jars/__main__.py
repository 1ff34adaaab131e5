"""The command `python -m stack.jars`.

`fetch [SET …]` downloads jars, `check` reports by its exit code whether all are present, and `lock [SET …]`
renews the committed lists after a version in `lists.py` has changed.
"""

from __future__ import annotations

import sys

from stack.errors import StackError
from stack.jars.coordinates import SET_NAMES
from stack.jars.download import JarFolder
from stack.jars.jar_sets import fetch
from stack.jars.lists import renew


def _print_line(message: str) -> None:
    sys.stderr.write(f"{message}\n")


def main(arguments: list[str]) -> int:
    """Run `fetch [SET …]`, `check [SET …]` or `lock [SET …]`; print expected failures as one line."""
    verb, names = (arguments or [""])[0], arguments[1:] or list(SET_NAMES)
    if verb not in ("fetch", "check", "lock"):
        _print_line("usage: python -m stack.jars fetch|check|lock [kafka] [pinot] [spark]")
        return 2
    try:
        if verb == "check":
            return int(any(JarFolder(name).missing() for name in names))
        if verb == "lock":
            renew(names, _print_line)
        fetch(names, _print_line)
    except StackError as error:
        _print_line(f"stack.jars: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
