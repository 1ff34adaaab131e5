"""Test the findings of `headrace doctor` about ZooKeeper servers."""

from __future__ import annotations

from dataclasses import astuple

from hypothesis import given
from hypothesis import strategies as st

from headrace.doctor.diagnosis import DoctorFinding, Grade
from headrace.doctor.ensemble import examined_servers
from mirror.adapters.zookeeper_survey import ServerFacts

GIB = 2**30
GOOD = ServerFacts("a:1", "", True, "3.9.3", "leader", 42, GIB, GIB)


def found(*servers: ServerFacts) -> list[DoctorFinding]:
    return list(examined_servers(servers))


def of_grade(grade: Grade, *servers: ServerFacts) -> list[str]:
    return [one.sentence for one in found(*servers) if one.grade is grade]


def test_a_server_that_is_well_says_its_version_and_what_it_keeps() -> None:
    version, disk = of_grade(Grade.OK, GOOD)
    assert all(fact in version for fact in ("a:1", "3.9.3", "leader", "42 nodes"))
    assert "a:1" in disk
    assert disk.count("1.00 GiB") == 2
    assert "disk space" in disk
    assert len(found(GOOD)) == 2


def test_what_a_server_does_not_say_is_unknown_with_the_setting_that_lets_it() -> None:
    unknown = [one for one in found(ServerFacts("a:1")) if one.grade is Grade.UNKNOWN]
    assert len(unknown) == len(found(ServerFacts("a:1"))) == 2
    assert all("4lw.commands.whitelist=srvr,dirs" in one.advice for one in unknown)


def test_a_server_that_is_away_is_a_warning_while_another_is_there() -> None:
    lost = ServerFacts("b:1", "Connection refused")
    (away,) = of_grade(Grade.WARNING, GOOD, lost)
    assert "b:1" in away
    assert away.endswith("Connection refused")
    assert found(lost) == []


def test_a_server_without_a_majority_is_a_problem_and_says_nothing_else() -> None:
    (problem,) = found(ServerFacts("a:1", is_serving=False))
    assert problem.grade is Grade.PROBLEM
    assert "quorum" in problem.sentence


def test_logs_that_were_never_removed_are_a_warning() -> None:
    (warning,) = of_grade(Grade.WARNING, GOOD._replace(log_bytes=20 * GIB))
    assert "logs 20.00 GiB" in warning


def test_versions_are_compared_as_numbers() -> None:
    assert of_grade(Grade.WARNING, GOOD._replace(release="3.4.14"))
    assert not of_grade(Grade.WARNING, GOOD._replace(release="3.10.0"))
    (note,) = of_grade(Grade.NOTE, GOOD, GOOD._replace(address="b:1", release="3.10.0"))
    assert note.endswith("3.9.3, 3.10.0")


def test_a_single_server_is_said() -> None:
    assert any("single server" in one for one in of_grade(Grade.NOTE, GOOD._replace(mode="standalone")))


@given(
    st.lists(
        st.builds(
            ServerFacts,
            st.just("a:1"),
            st.sampled_from(["", "refused"]),
            st.booleans(),
            st.text(max_size=8),
            st.text(max_size=8),
            st.none() | st.integers(0),
            st.none() | st.integers(0),
            st.none() | st.integers(0),
        ),
        max_size=4,
    )
)
def test_every_finding_that_asks_for_something_says_what(servers: list[ServerFacts]) -> None:
    for one in found(*servers):
        assert one.subject == "ZooKeeper"
        assert one.advice or one.grade is Grade.OK
        assert all(isinstance(text, str) for text in astuple(one))
