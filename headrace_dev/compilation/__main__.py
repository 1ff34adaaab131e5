"""Compile the data plane.

python -m headrace_dev.compilation check    exit with 0 if the build exists
python -m headrace_dev.compilation build    compile the data plane into .cache/compiled
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from headrace_dev.compilation.builds import build, check


def main(arguments: Sequence[str]) -> int:
    """Run the command `check` or `build`, and return its exit code."""
    match arguments:
        case ["check"]:
            return check()
        case ["build"]:
            return build()
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
