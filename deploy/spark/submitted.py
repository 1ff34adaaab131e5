"""What spark-submit runs: `headrace pmp run` with the arguments behind this file's name.

Not named like a package of ours: its folder comes first on the path.
"""

from __future__ import annotations

import sys

from headrace.__main__ import main

if __name__ == "__main__":
    sys.argv[1:1] = ["pmp", "run"]
    main()
