"""Files that the creation of a datastream passes through, from the REST call until its lane runs.

    python -m tests.creation_walk

An instance in memory gets `POST /v1/datastreams`; its leader plans and its follower starts the lanes, while
every function of the product that is entered is recorded, in all threads. Functions that are also entered by
a turn in which nothing changes, or by a call that only reads (`GET /v1/ready`), are not part of the creation.
The worker process is a fake: the walk ends with the command that it receives.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from scripts.architecture import PACKAGES, ROOT
from tests.fakes.site import Site, a_body

_QUIET_TURNS: Final = 6
_TURNS: Final = 4


class Entered(NamedTuple):
    """Entered function. `file`: relative to the repository."""

    file: str
    function: str


class Recorder:
    """Records functions of the product, in the threads that start after it was created."""

    def __init__(self) -> None:
        self._found: dict[Entered, None] | None = None
        self._places = tuple(f"{ROOT / package}/" for package in PACKAGES)
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def entered_by(self, run: Callable[[], Any]) -> list[Entered]:
        """Return functions that `run` enters, in order and without repeats."""
        self._found = {}
        run()
        found, self._found = self._found, None
        return list(found)

    def close(self) -> None:
        """Stop recording in this thread and in new ones."""
        threading.setprofile(None)
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        code, found = frame.f_code, self._found
        if found is None or event != "call" or not code.co_filename.startswith(self._places):
            return
        if not code.co_name.startswith("<"):
            found[Entered(str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname)] = None


def creation_walk() -> list[Entered]:
    """Return functions that a creation enters, in order."""
    recorder, quiet, found = Recorder(), set[Entered](), list[Entered]()
    for _ in range(2):  # the first creation fills caches
        site = Site()
        quiet.update(recorder.entered_by(partial(site.tick, _QUIET_TURNS)))
        quiet.update(recorder.entered_by(partial(site.client.get, "/v1/ready")))
        found = recorder.entered_by(partial(_create, site))
    quiet.update(recorder.entered_by(partial(site.tick, _QUIET_TURNS)))
    recorder.close()
    return [entered for entered in found if entered not in quiet]


def _create(site: Site) -> None:
    assert site.client.post("/v1/datastreams", json=a_body("orders")).status_code == 201
    site.tick(_TURNS)
    assert len(site.follower.follower.lanes) == 2


def lengths_of(walk: list[Entered]) -> dict[str, int]:
    """Return the lines of each file of a walk, in the order in which they are entered."""
    files = dict.fromkeys(entered.file for entered in walk)
    return {file: len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in files}


if __name__ == "__main__":
    walk = creation_walk()
    lengths = lengths_of(walk)
    for name, length in lengths.items():
        functions = [entered.function for entered in walk if entered.file == name]
        print(f"{length:>5}  {name}: {', '.join(functions)}")
    print(f"{len(lengths)} files, {sum(lengths.values())} lines, {len(walk)} functions")
