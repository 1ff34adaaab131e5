"""The table of reported faults: its rows, and their results in a test run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.__main__ import module_of, names
from bench.reported.faults import outcomes, run, wanted
from bench.reported.rig import register
from bench.reported.rig.register import (
    FAILS,
    FALLS_SHORT,
    HOLDS,
    Situation,
    block,
    missing_tests,
    read,
    write,
)

A_ROW = Situation("lost", "a mirror", "KAFKA-1", "open", "Records are lost.", ("tests/test_a.py::test_a",))
SHORT = replace(A_ROW, id="short", reference="a/b#2", tests=(), falls_short="it does the same")
A_FILE = """
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_good(number): pass

@pytest.mark.parametrize("number", [1, 2])
def test_half(number): assert number == 1

def test_skipped(): pytest.skip("no")
"""

A_REPORT = """<testsuites><testsuite>
<testcase name="test_good[1]" file="a.py" /><testcase name="test_good[2]" file="a.py" />
<testcase name="test_half[1]" file="a.py"><failure>no</failure></testcase>
<testcase name="test_half[2]" file="a.py" />
<testcase name="test_skipped" file="b.py"><skipped /></testcase>
</testsuite></testsuites>
"""


def test_every_named_test_exists() -> None:
    assert missing_tests(read()) == []


def test_the_page_has_the_table_that_a_good_run_prints() -> None:
    rows = read()
    assert register.block_on() == block(rows, {one.id: one.expected for one in rows})


def test_it_is_among_the_measurements() -> None:
    assert [name for name in names() if name.startswith("reported_")] == ["reported_faults"]
    assert (module_of("reported_faults").__doc__ or "").startswith("Situations from public bug reports")


def test_a_row_holds_only_if_all_its_tests_passed() -> None:
    two = replace(A_ROW, tests=("a", "b"))
    assert two.verdict({"a": True, "b": True}) == HOLDS
    assert two.verdict({"a": True, "b": False}) == FAILS
    assert two.verdict({"a": True}) == FAILS
    assert SHORT.verdict({}) == FALLS_SHORT
    assert replace(SHORT, tests=("a",)).verdict({"a": False}) == FAILS


def test_a_row_has_a_link_to_its_report() -> None:
    assert A_ROW.link == "https://issues.apache.org/jira/browse/KAFKA-1"
    assert SHORT.link == "https://github.com/a/b/issues/2"
    assert SHORT.row(FALLS_SHORT)[-2:] == ("handled in part: it does the same", "no test yet")


@pytest.mark.parametrize("change", [{"tests": ()}, {"reference": "somewhere"}, {"reference": "b#2"}])
def test_a_row_without_evidence_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=A_ROW.id):
        replace(A_ROW, **change)  # type: ignore[arg-type]


def test_two_rows_of_one_id_are_refused(tmp_path: Path) -> None:
    fields = {"id": "x", "against": "y", "reference": "KAFKA-1", "state": "open", "reported": "z"}
    row = "\n".join(["[[situation]]", 'tests = ["t"]', *(f'{key} = "{fields[key]}"' for key in fields), ""])
    file = tmp_path / "rows.toml"
    file.write_text(row)
    assert [one.id for one in read(file)] == ["x"]
    file.write_text(row * 2)
    with pytest.raises(ValueError, match="x"):
        read(file)


def test_a_test_that_is_missing_is_named_with_its_row() -> None:
    assert missing_tests([A_ROW, SHORT]) == ["lost: tests/test_a.py::test_a"]
    here = f"tests/unit/bench/{Path(__file__).name}"
    wrong = replace(A_ROW, tests=(f"{here}::test_every_named_test_exists", f"{here}::test_nothing"))
    assert missing_tests([wrong]) == [f"lost: {here}::test_nothing"]


def test_a_test_has_passed_if_it_did_with_all_its_parameters(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(A_REPORT)
    assert outcomes(report) == {
        "a.py::test_good": True,
        "a.py::test_half": False,
        "b.py::test_skipped": False,
    }


@pytest.mark.deep
def test_a_run_tells_of_every_test_whether_it_passed(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(A_FILE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    tests = [f"test_it.py::test_{name}" for name in ("good", "half", "skipped")]
    assert run(tests, tmp_path) == dict(zip(tests, (True, False, False), strict=True))
    assert run([], tmp_path) == {}


def test_some_rows_are_taken_by_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wanted([A_ROW, SHORT]) == [A_ROW, SHORT]
    monkeypatch.setenv("BENCH_CASES", "short")
    assert wanted([A_ROW, SHORT]) == [SHORT]
    monkeypatch.setenv("BENCH_CASES", "short,other")
    with pytest.raises(SystemExit, match="other"):
        wanted([A_ROW, SHORT])


def test_a_table_is_written_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{register.BEGIN}\nold\n{register.END}\nafter\n")
    table = block([A_ROW, SHORT], {"lost": HOLDS, "short": FALLS_SHORT})
    write(table, page)
    assert register.block_on(page) == table
    assert table.startswith("2 situations: 1 handled, 1 handled in part, 0 with a failing test.")
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("\nafter\n")
