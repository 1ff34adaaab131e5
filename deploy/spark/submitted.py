"""What spark-submit runs: `headrace pmp run` with the arguments behind this file's name."""

from __future__ import annotations

import sys

from headrace.__main__ import main

sys.argv[1:1] = ["pmp", "run"]
main()
