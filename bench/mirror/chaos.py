"""A hundred SIGKILLs of the copy and of brokers at random times, then a comparison of every record.

The cases are rounds of 25 kills. Their seeds and guarantees are printed; run one again with
`BENCH_CASES=effectively-once-2`. `tests/chaos/test_copy_killed.py` runs the same loop for a shorter time.
"""

from __future__ import annotations

import time

from bench.mirror.rig.clusters import chosen, clusters
from mirror.model.datastreams.policy import Guarantee
from tests.chaos.killing import Loop

_KILLS = 25
_ROUNDS = {
    "effectively-once-1": (Guarantee.EFFECTIVELY_ONCE, 101),
    "effectively-once-2": (Guarantee.EFFECTIVELY_ONCE, 102),
    "exactly-once": (Guarantee.EXACTLY_ONCE, 103),
    "at-least-once": (Guarantee.AT_LEAST_ONCE, 104),
}


def main() -> None:
    """Print a line for each series of kills."""
    print("round                 seed  seconds  findings")
    for name in chosen(*_ROUNDS):
        guarantee, seed = _ROUNDS[name]
        with clusters(quick_start=True) as pair:
            began = time.monotonic()
            loop = Loop(pair.source, pair.target, f"chaos-{name}", guarantee, seed, pair.folder)
            loop.run(kills=_KILLS)
            found = loop.finish()
            print(f"{name:21} {seed:5} {time.monotonic() - began:8.0f}  {found}", flush=True)
