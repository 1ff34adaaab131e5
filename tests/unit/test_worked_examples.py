"""The worked examples of CONTRIBUTING.md have the stated effects, with the stated number of files.

Each one is applied to a copy of the sources, and a process that imports the copy shows the effects.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.contract.connectors import RecordSinkContract
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.long

ROOT: Final = Path(__file__).parents[2]
CHANGED: Final = ("mirror", "pinot", "api", "headrace")
_SECTION: Final = re.compile(
    r"^## (To add .*)\n(?:(?!## ).*\n)*?```diff\n((?:(?!```).*\n)*)```", re.MULTILINE
)
NUMBERS: Final = {"one": 1, "two": 2, "three": 3}


def examples() -> dict[str, str]:
    """Return the diffs by the headings of their sections."""
    return dict(_SECTION.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))


def hunks_of(diff: str) -> Iterator[tuple[str, str, str]]:
    """Yield a file, some of its current lines, and their replacement."""
    for of_file in diff.split("+++ ")[1:]:
        name, _, rest = of_file.partition("\n")
        for hunk in rest.split("@@\n")[1:]:
            lines = hunk.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if line[0] in " -")
            yield name, before, "".join(line[1:] for line in lines if line[0] in " +")


def test_every_way_to_add_something_has_an_example() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert list(examples()) == re.findall(r"^## (To add .*)$", page, re.MULTILINE)


@pytest.mark.parametrize("heading", examples())
def test_an_example_fits_the_sources_and_is_as_small_as_it_says(heading: str) -> None:
    changed = set()
    for name, before, _ in hunks_of(examples()[heading]):
        if before:
            assert (ROOT / name).read_text(encoding="utf-8").count(before) == 1, f"{name}:\n{before}"
        else:
            assert not (ROOT / name).exists(), f"{name} already exists"
        changed.add(name)
    assert len(changed) == NUMBERS[heading.split()[-2]]


@pytest.fixture
def with_example(tmp_path: Path) -> dict[str, Any]:
    """Return the output of `tests/worked_examples.py` with the applied examples."""
    for wing in CHANGED:
        shutil.copytree(ROOT / wing, tmp_path / wing)
    for diff in examples().values():
        for name, before, after in hunks_of(diff):
            file = tmp_path / name
            text = file.read_text(encoding="utf-8").replace(before, after) if before else after
            file.write_text(text, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "tests.worked_examples"],
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE_SECONDS,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])  # after the log
    return seen


def test_the_examples_bring_what_they_say(with_example: dict[str, Any]) -> None:
    metric = with_example["metric"]
    assert metric["columns"][-1] == "merged_batches"
    assert metric["version"] == 4
    labels = '{datastream="orders",task="orders-0"}'
    (count,) = re.findall(
        rf"^headrace_merged_batches_total{labels} (.*)$", metric["prometheus"], re.MULTILINE
    )
    assert float(count) > 0
    assert metric["lane"]["per_second"]["merged_batches"] > 0
    option = with_example["option"]
    assert option["answer"]["compact"] is True
    assert option["metadata"]["headrace.compact"] == "true"
    assert option["created"]["cleanup.policy"] == "compact"
    assert option["command"] == {"destination": {"compact": True}}
    assert "compact" in option["documented"]
    stamped = [["h", "x"], ["site", "east"]]
    assert with_example["transform"]["headers"] == [stamped] * 3
    promises = [name for name in dir(RecordSinkContract) if name.startswith("test_")]
    assert with_example["connector"]["kept"] == promises
