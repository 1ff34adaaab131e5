"""Test the table of tests against other releases of Kafka."""

from __future__ import annotations

from pathlib import Path

from stack.jars.coordinates import KAFKA_RELEASES
from tests.compatibility import PAGE, ROOT, TESTS, release_of, results_of, table

_FIDELITY = "tests.integration.mirror.replication.test_fidelity"
_REPORT = f"""<testsuites><testsuite>
<testcase classname="tests.contract.mirror.test_copy_engine" name="a[real]"/>
<testcase classname="tests.contract.mirror.test_copy_engine.TestMore" name="b"/>
<testcase classname="tests.contract.mirror.test_topic_admin" name="c"><failure message="x"/></testcase>
<testcase classname="{_FIDELITY}" name="d"><error message="x"/></testcase>
</testsuite></testsuites>"""


def test_failures_and_errors_are_no_passed_tests() -> None:
    results = results_of(_REPORT)
    assert results.passed == dict.fromkeys(TESTS.values(), 0) | {TESTS["guarantees"]: 2}
    assert [name.rpartition("::")[2] for name in results.failed] == ["c", "d"]
    assert table({"kafka-4.4": results}).splitlines()[-1] == "| 4.4.0 | 2 | 0 | 0 | 0 | 0 | 2 |"


def test_each_set_has_the_release_that_it_names() -> None:
    assert {name: release_of(name) for name in KAFKA_RELEASES} == KAFKA_RELEASES


def test_each_release_is_in_the_table_of_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    missing = [name for name in ("kafka", *KAFKA_RELEASES) if f"| {release_of(name)} |" not in page]
    assert missing == []
    assert [file for file in TESTS.values() if not (ROOT / Path(file)).exists()] == []
