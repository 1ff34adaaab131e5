"""Application for spark-submit: `headrace pmp run` with the arguments that follow this file's name.

Must not have the name of a package of Headrace, because its folder comes first on the path.
"""

from __future__ import annotations

import sys

from headrace.__main__ import main

if __name__ == "__main__":
    sys.argv[1:1] = ["pmp", "run"]
    main()
