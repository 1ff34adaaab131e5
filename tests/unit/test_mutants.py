"""The planted faults apply to the current sources, and the check plants, tests and removes them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.examples import DEEP, QUICK
from tests.mutants.__main__ import main
from tests.mutants.fault import ROOT, Fault, listed_faults
from tests.mutants.report import document_of, row, summary
from tests.mutants.sandbox import Sandbox
from tests.mutants.trial import RunTests, Selection, Tier, Verdict, judge

FAULTS: Final = listed_faults()
ROOMS: Final = {
    "admission",
    "checkpoints",
    "distant-writes",
    "fetch-handler",
    "growth-rates",
    "lane-lifecycle",
    "leases",
    "ledger",
    "load-provider",
    "monitor-causes",
    "plan-reconciliation",
    "planner-stages",
    "produce-handler",
    "producer-ids",
    "rest-rights",
}
FAULT: Final = Fault(
    id="wrong-sum",
    room="sums",
    file="mirror/sums.py",
    original="one + other",
    replacement="one - other",
    breaks="Sums are differences.",
    tests=("tests/unit/test_sums.py",),
)
FIRST, WIDER, TEST = FAULT.tests[0], "tests/unit/mirror", "tests/unit/test_sums.py::test_a_sum"


def test_there_are_at_least_sixty_distinct_faults_in_every_room() -> None:
    assert len(FAULTS) == len({one.id for one in FAULTS}) >= 60
    rooms = Counter(one.room for one in FAULTS)
    assert set(rooms) == ROOMS
    assert min(rooms.values()) >= 4


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.id)
def test_a_fault_still_applies_and_its_tests_are_there(fault: Fault) -> None:
    source = (ROOT / fault.file).read_text(encoding="utf-8")
    assert fault.planted_in(source) != source
    assert [name for name in fault.tests if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("source", ["", "one + other; one + other"])
def test_a_fault_whose_original_text_does_not_occur_once_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=FAULT.id):
        FAULT.planted_in(source)


def test_a_fault_that_does_not_compile_is_refused() -> None:
    with pytest.raises(SyntaxError):
        FAULT.model_copy(update={"replacement": "one +"}).planted_in("one + other")


def runner(finds: Callable[[Selection], bool]) -> tuple[list[Selection], RunTests]:
    """Return the requested runs and their runner; `finds` decides which runs find the fault."""
    asked: list[Selection] = []

    def run(selection: Selection) -> str:
        asked.append(selection)
        return TEST if finds(selection) else ""

    return asked, run


def test_expected_tests_run_first_and_deep_ones_last() -> None:
    asked, run = runner(lambda selection: False)
    assert judge(FAULT, Tier.ALL, run) == Verdict(FAULT)
    assert [(one.paths[0], one.marker, one.profile) for one in asked] == [
        (FIRST, "not deep", QUICK),
        (WIDER, "not deep and not servers", QUICK),
        (FIRST, "", DEEP),
        (WIDER, "not servers", DEEP),
    ]


def test_the_first_test_that_fails_decides() -> None:
    asked, run = runner(lambda selection: selection.paths[0] == FIRST)
    assert judge(FAULT, Tier.ALL, run) == Verdict(FAULT, Tier.TEST, TEST)
    assert len(asked) == 1


def test_what_only_a_deep_test_finds_survives_make_test() -> None:
    _, run = runner(lambda selection: selection.profile == DEEP)
    assert judge(FAULT, Tier.ALL, run) == Verdict(FAULT, Tier.ALL, TEST)
    asked, run = runner(lambda selection: selection.profile == DEEP)
    assert judge(FAULT, Tier.TEST, run) == Verdict(FAULT)
    assert {one.profile for one in asked} == {QUICK}


def test_the_table_and_the_document_tell_the_tiers_apart() -> None:
    verdicts = [Verdict(FAULT, Tier.TEST, TEST, 1.0), Verdict(FAULT, Tier.ALL, TEST), Verdict(FAULT)]
    assert [row(one, Tier.ALL).split()[1:3] for one in verdicts] == [
        ["found", "found"],
        ["survives", "found"],
        ["survives", "survives"],
    ]
    assert row(Verdict(FAULT), Tier.TEST).split()[1:3] == ["survives", "not"]
    assert re.findall(r"\d+", summary(verdicts)) == ["2", "3", "1"]
    found = document_of(verdicts, Tier.ALL)
    assert (found["found"], found["total"]) == (2, 3)
    assert [one["found_by_make_test_all"] for one in found["faults"]] == [True, True, False]
    assert document_of([Verdict(FAULT)], Tier.TEST)["faults"][0]["found_by_make_test_all"] is None
    assert json.loads(json.dumps(found)) == found


def test_a_fault_that_is_not_listed_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "no-such-thing"]) == 2
    assert "no-such-thing" in capsys.readouterr().err


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with one module and its test."""
    folder = tmp_path / "repository"
    for name, text in {
        FAULT.file: "def sum_of(one: int, other: int) -> int:\n    return one + other\n",
        "mirror/__init__.py": "",
        FIRST: "from mirror.sums import sum_of\n\n\ndef test_a_sum() -> None:\n    assert sum_of(1, 2) == 3",
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
        "tests/conftest.py": "from tests.examples import register_profiles\n\nregister_profiles()\n",
        ".gitignore": "left_out.py\n",
        "left_out.py": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "tests/mutants").mkdir()
    for name in ("tests/examples.py", "tests/mutants/unshrunk.py"):
        shutil.copy(ROOT / name, folder / name)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    return folder


def test_a_fault_is_planted_in_a_copy_found_and_removed(repository: Path, tmp_path: Path) -> None:
    sandbox = Sandbox(repository, tmp_path / "copy")
    sandbox.fill()
    assert not (tmp_path / "copy/left_out.py").exists()
    with sandbox.with_fault(FAULT), pytest.raises(RuntimeError, match=TEST):
        sandbox.require_sound(FIRST)
    sandbox.require_sound(FIRST)
    for folder in (repository, tmp_path / "copy"):
        assert "one + other" in (folder / FAULT.file).read_text(encoding="utf-8")
