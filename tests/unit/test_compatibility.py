"""Test the table of tests against other releases of Kafka."""

from __future__ import annotations

from bench.tables import text_between
from stack.jars.coordinates import KAFKA_RELEASES
from tests.compatibility import BEGIN, END, PAGE, ROOT, TESTS, release_of, results_of, table

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


def test_the_table_of_the_page_has_only_releases_that_are_tested() -> None:
    rows = text_between(PAGE, BEGIN, END).splitlines()[2:]
    releases = {row.split("|")[1].strip() for row in rows}
    assert releases
    assert releases <= {release_of(name) for name in ("kafka", *KAFKA_RELEASES)}
    assert [file for file in TESTS.values() if not (ROOT / file).exists()] == []
