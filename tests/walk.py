"""Files of the product that a batch or a request passes through, traced on fakes.

python -m tests.walk            print the walk of a batch, from its Fetch response to its durable checkpoint
python -m tests.walk create     print the walk of a creation, from the REST request to the running lanes
python -m tests.walk sample     print the walk of a sample, from Cruise Control's bytes to the queried row
python -m tests.walk breach     print the walk of a breach, from the measured record to the lane that moves

Every file of the product is listed in which a function is entered, except those entered in every round even
if nothing has arrived (timers, polls), and, for a creation, by a call that only reads. A creation is followed
in all threads; the worker process is a fake, so its walk ends with the command that the worker receives. A
return is a step back to a file that was entered before. `tests/loop_walks.py` says what is a fake in the
walks of a sample and of a breach.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import cache, partial
from typing import Final

from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.site import Site, a_body
from tests.tracing import Tracer, Visit, described

_WARM_SECONDS: Final = 2.0
_ROUND_SECONDS: Final = 0.05
_QUIET_ROUNDS: Final = 20
_QUIET_TICKS: Final = 6
_TICKS: Final = 4
_RECORDS: Final = 50


@cache
def walk_of_batch() -> tuple[Visit, ...]:
    """Return everything that a plain batch enters, in order."""
    tracer = Tracer()
    with tracer.installed():
        fakes = MirroredFakes()
        fakes.make_topic("t")
        fakes.write("t", 0, _RECORDS)
        fakes.start("t")
        fakes.run_to("t", _RECORDS)
        fakes.run(_WARM_SECONDS)
        always: set[Visit] = set()
        quiet = 0
        while quiet < _QUIET_ROUNDS:
            asked = _requests(fakes)
            entered = tracer.entered_by(lambda: fakes.run(_ROUND_SECONDS))
            if _requests(fakes) == asked and not any(one.function.endswith("._on_answer") for one in entered):
                always.update(entered)
                quiet += 1
        fakes.write("t", _RECORDS, _RECORDS)

        def copied() -> None:
            fakes.run_to("t", 2 * _RECORDS)
            fakes.run(_ROUND_SECONDS)  # the response of the progress topic

        found = tuple(one for one in tracer.entered_by(copied) if one not in always)
        fakes.close()
    return found


def _requests(fakes: MirroredFakes) -> int:
    return sum(len(cluster.server.requests) for cluster in (fakes.source, fakes.target))


@cache
def walk_of_creation() -> tuple[Visit, ...]:
    """Return everything that the creation of a datastream enters, in order."""
    tracer, quiet, found = Tracer(), set[Visit](), list[Visit]()
    with tracer.installed():
        for _ in range(2):  # the first creation fills caches
            site = Site()
            quiet.update(tracer.entered_by(partial(site.tick, _QUIET_TICKS), by_tests=True))
            quiet.update(tracer.entered_by(partial(site.client.get, "/v1/ready"), by_tests=True))
            found = tracer.entered_by(partial(_create, site))
        quiet.update(tracer.entered_by(partial(site.tick, _QUIET_TICKS), by_tests=True))
    return tuple(one for one in found if one not in quiet)


def _create(site: Site) -> None:
    assert site.client.post("/v1/datastreams", json=a_body("orders")).status_code == 201
    site.tick(_TICKS)
    assert len(site.follower.follower.view.lanes) == 2


def _of_loop(name: str) -> Sequence[Visit]:
    from tests import loop_walks  # pandas and the monitor, which a batch does not need

    return loop_walks.walk_of_sample() if name == "sample" else loop_walks.walk_of_breach()


WALKS: Final[Mapping[str, Callable[[], Sequence[Visit]]]] = {
    "batch": walk_of_batch,
    "create": walk_of_creation,
    "sample": partial(_of_loop, "sample"),
    "breach": partial(_of_loop, "breach"),
}


def main(arguments: Sequence[str]) -> int:
    """Print a walk; return the exit code."""
    name = arguments[0] if arguments else "batch"
    if len(arguments) > 1 or name not in WALKS:
        print(__doc__, file=sys.stderr)
        return 2
    with redirect_stdout(sys.stderr):  # for the log
        text = described(WALKS[name]())
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
