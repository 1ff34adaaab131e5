"""Test the findings of `headrace doctor`."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headrace.doctor.clocks import examined_clocks
from headrace.doctor.clusters import examined_cluster, same_clusters
from headrace.doctor.diagnosis import DoctorFinding, Grade, some_of
from headrace.doctor.host import HostFacts, examined_host, examined_settings
from headrace.doctor.plug_ins import examined_plug_ins
from headrace.doctor.topics import TopicPair, examined_own_topic, examined_pairs
from headrace.settings import load_settings
from mirror.adapters.kafka.survey import BrokerFacts, ClusterFacts, TopicFacts
from mirror.adapters.settings import KafkaCluster, KafkaSecurity
from mirror.protocol.codes import Code
from mirror.protocol.control.rights import AclOperation, LogFolder
from tests.unit.headrace.conftest import Headrace, Write

EVERYTHING = frozenset(AclOperation)
PLAIN = KafkaCluster(bootstrap_servers="kafka.example.net:9092")
BROKER = BrokerFacts(1, "kafka.example.net:9092", "", "3.9", None)
CLUSTER = ClusterFacts("id", (BROKER,), EVERYTHING, {})
TOPIC = TopicFacts("orders", 0, EVERYTHING, 2, settings={})


def grades(findings: list[DoctorFinding]) -> set[Grade]:
    return {one.grade for one in findings}


def of_cluster(
    facts: ClusterFacts, settings: KafkaCluster = PLAIN, *, is_written: bool = True
) -> list[DoctorFinding]:
    return list(examined_cluster("east", settings, facts, is_written=is_written))


def of_pair(source: TopicFacts = TOPIC, copy: TopicFacts | None = TOPIC) -> list[DoctorFinding]:
    return list(examined_pairs("orders", [TopicPair(source, copy)]))


def with_settings(**values: object) -> TopicFacts:
    return replace(TOPIC, settings={key.replace("_", "."): str(value) for key, value in values.items()})


def test_a_broker_that_is_announced_where_nobody_reaches_it_is_a_problem() -> None:
    lost = BrokerFacts(2, "10.0.0.7:9092", "connection refused")
    (problem,) = [
        one for one in of_cluster(replace(CLUSTER, brokers=(BROKER, lost))) if one.grade is Grade.PROBLEM
    ]
    assert "broker 2" in problem.sentence
    assert "10.0.0.7:9092" in problem.sentence
    assert "advertised.listeners" in problem.advice


@pytest.mark.parametrize(
    ("protocol", "mechanism", "address", "said"),
    [
        ("SASL_PLAINTEXT", "PLAIN", "kafka.example.net:9092", "password"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256", "kafka.example.net:9092", "without TLS"),
        ("PLAINTEXT", "", "kafka.example.net:9092", "without TLS"),
        ("SASL_SSL", "PLAIN", "kafka.example.net:9092", ""),
        ("SASL_PLAINTEXT", "PLAIN", "127.0.0.1:9092", ""),
    ],
)
def test_what_crosses_the_network_in_the_clear_is_said(
    protocol: str, mechanism: str, address: str, said: str
) -> None:
    user = {"username": "u", "password": "p"} if mechanism else {}
    security = KafkaSecurity.model_validate({"protocol": protocol, "mechanism": mechanism, **user})
    settings = KafkaCluster(bootstrap_servers=address, security=security)
    found = of_cluster(replace(CLUSTER, brokers=(replace(BROKER, address=address),)), settings)
    about = [one.sentence for one in found if "TLS" in one.sentence]
    assert bool(about) == bool(said)
    assert all(said in one for one in about)


@pytest.mark.parametrize(("seconds", "is_far"), [(0.0, False), (0.0004, False), (0.002, True), (0.1, True)])
def test_a_distant_broker_is_a_note(seconds: float, is_far: bool) -> None:
    broker = replace(BROKER, round_trip_seconds=seconds)
    found = of_cluster(facts=replace(CLUSTER, brokers=(broker,)))
    notes = [one for one in found if "round trip" in one.sentence]
    assert [one.grade for one in notes] == [Grade.NOTE] * is_far
    assert all("socket.send.buffer.bytes" in one.advice for one in notes)


def test_rights_on_the_cluster_are_given_lacking_or_unknown() -> None:
    def about_creation(facts: ClusterFacts) -> Grade:
        (found,) = [one for one in of_cluster(facts) if "create" in one.sentence.lower()]
        return found.grade

    assert about_creation(CLUSTER) is Grade.OK
    assert about_creation(replace(CLUSTER, rights=frozenset())) is Grade.NOTE
    assert about_creation(replace(CLUSTER, rights=None, why=("too old",))) is Grade.UNKNOWN
    read_only = of_cluster(replace(CLUSTER, rights=frozenset()), is_written=False)
    assert not any("create" in one.sentence.lower() for one in read_only)


def test_a_disk_that_is_nearly_full_is_a_warning_and_one_that_is_not_told_is_none() -> None:
    def warns(folder: LogFolder) -> bool:
        broker = replace(BROKER, folders=(folder,))
        return Grade.WARNING in grades(of_cluster(replace(CLUSTER, brokers=(broker,))))

    assert warns(LogFolder(0, "/data", 100 * 2**30, 5 * 2**30))
    assert not warns(LogFolder(0, "/data", 100 * 2**30, 50 * 2**30))
    assert not warns(LogFolder(0, "/data", None, None))
    assert not warns(LogFolder(0, "/data", 0, 0))


def test_quotas_are_named_and_never_taken_for_none_where_they_are_unknown() -> None:
    held = of_cluster(replace(CLUSTER, quotas={"producer_byte_rate": 1e6}))
    assert any("producer_byte_rate: 1e+06" in one.sentence for one in held)
    unknown = of_cluster(replace(CLUSTER, quotas=None, why=("no right",)))
    assert Grade.UNKNOWN in grades(unknown)


def test_clocks_are_off_agree_or_are_not_spoken_of() -> None:
    def instance(name: str, **clocks: tuple[float, float]) -> dict[str, object]:
        shown = {
            cluster: {"ahead_seconds": one[0], "bound_seconds": one[1]} for cluster, one in clocks.items()
        }
        return {"name": name, "health": {"clocks": shown}}

    former = {"name": "c", "health": {}}
    away = {"name": "d", "health": None}
    ours = [instance("a", east=(0.012, 0.003), west=(0.9, 0.002)), instance("b", west=(-4.0, 0.025))]
    east, west = examined_clocks([*ours, former, away])
    assert (east.subject, east.grade) == ("cluster east", Grade.OK)
    assert (west.subject, west.grade) == ("cluster west", Grade.WARNING)
    assert all(fact in west.sentence for fact in ("behind", "instance b", "4.000 s", "0.025 s"))
    assert list(examined_clocks([former, away])) == []
    (unsure,) = examined_clocks([instance("a", east=(1.5, 0.7))])
    assert unsure.grade is Grade.OK, "may be less than a second"


def an_instance(name: str, *strategies: str) -> dict[str, object]:
    return {
        "name": name,
        "health": {"strategies": ["auto", *strategies], "load_providers": ["self", "none"]},
    }


def a_choice(name: str, **placement: str) -> dict[str, object]:
    return {"name": name, "placement": {"strategy": None, "load_provider": None, **placement}}


def test_plug_ins_that_all_have_or_nobody_chooses_are_not_spoken_of() -> None:
    former, away = {"name": "c", "health": {"strategies": None}}, {"name": "d", "health": None}
    assert not list(examined_plug_ins([an_instance("a"), an_instance("b"), former, away], [a_choice("x")]))
    chosen = [a_choice("orders", strategy="tight"), a_choice("clicks", load_provider="none")]
    both = [an_instance("a", "tight"), an_instance("b", "tight")]
    assert not list(examined_plug_ins(both, [*chosen, {"name": "damaged"}]))
    unsure, unsure_too = examined_plug_ins([*both, former, away], chosen)
    assert (unsure.grade, unsure_too.grade) == (Grade.UNKNOWN, Grade.UNKNOWN)
    assert "strategies of c, d" in unsure.sentence
    assert "load providers of c, d" in unsure_too.sentence


def test_a_plug_in_that_an_instance_lacks_is_named() -> None:
    some = [an_instance("a", "tight", "spare"), an_instance("b"), an_instance("c")]
    spare, tight = examined_plug_ins(some, [a_choice("orders", strategy="tight")])
    assert (spare.subject, spare.grade) == ("service", Grade.WARNING)
    assert all(fact in spare.sentence for fact in ("strategy spare", "b, c"))
    assert (tight.subject, tight.grade) == ("datastream orders", Grade.PROBLEM)
    assert all(fact in tight.sentence for fact in ("strategy tight", "b, c"))
    assert "install" in tight.advice
    (nowhere,) = examined_plug_ins([an_instance("a")], [a_choice("orders", load_provider="ours")])
    assert (nowhere.subject, nowhere.grade) == ("datastream orders", Grade.PROBLEM)
    assert all(fact in nowhere.sentence for fact in ("load provider ours", " a: "))


def test_two_aliases_of_one_cluster_are_said() -> None:
    (found,) = same_clusters({"a": "x", "b": "x", "c": "y", "d": ""})
    assert "a and b" in found.sentence
    assert "(x)" in found.sentence
    assert not list(same_clusters({"a": "", "b": ""}))


def test_topics_that_fit_are_one_line() -> None:
    (found,) = of_pair()
    assert (found.grade, found.subject) == (Grade.OK, "datastream orders")
    (none,) = examined_pairs("orders", [])
    assert none.grade is Grade.WARNING


@pytest.mark.parametrize(
    ("source", "copy", "grade", "said"),
    [
        (replace(TOPIC, rights=frozenset()), TOPIC, Grade.PROBLEM, "lacks Read "),
        (
            replace(TOPIC, rights=frozenset({AclOperation.READ})),
            TOPIC,
            Grade.NOTE,
            "lacks DescribeConfigs ",
        ),
        (replace(TOPIC, rights=None), TOPIC, Grade.UNKNOWN, "permissions"),
        (TOPIC, replace(TOPIC, rights=frozenset()), Grade.PROBLEM, "lacks Write "),
        (
            TOPIC,
            replace(TOPIC, error=Code.TOPIC_AUTHORIZATION_FAILED, rights=None),
            Grade.PROBLEM,
            "lacks Describe ",
        ),
        (replace(TOPIC, leaderless=(1,)), TOPIC, Grade.PROBLEM, "no leader"),
        (TOPIC, replace(TOPIC, partitions=1), Grade.NOTE, "fewer partitions"),
        (with_settings(retention_ms=60_000), None, Grade.WARNING, "1 min"),
        (
            replace(TOPIC, settings={"unclean.leader.election.enable": "true"}),
            None,
            Grade.WARNING,
            "unclean leader",
        ),
        (
            with_settings(max_message_bytes=2_000_000),
            with_settings(max_message_bytes=1_000_000),
            Grade.WARNING,
            "1000000 bytes",
        ),
        (TOPIC, with_settings(message_timestamp_type="LogAppendTime"), Grade.NOTE, "timestamps"),
        (TOPIC, with_settings(message_timestamp_before_max_ms=86_400_000), Grade.WARNING, "86400000 ms"),
        (TOPIC, with_settings(message_timestamp_difference_max_ms=1), Grade.WARNING, "1 ms"),
        (with_settings(cleanup_policy="compact"), TOPIC, Grade.WARNING, "is compacted"),
        (TOPIC, with_settings(cleanup_policy="compact"), Grade.WARNING, "is not compacted"),
        (TOPIC, with_settings(compression_type="zstd"), Grade.NOTE, "zstd"),
    ],
)
def test_what_will_bite_is_said(source: TopicFacts, copy: TopicFacts | None, grade: Grade, said: str) -> None:
    (found,) = of_pair(source, copy)
    assert found.grade is grade
    assert said in found.sentence
    assert found.sentence.endswith(": orders")


@pytest.mark.parametrize(
    "copy",
    [
        None,
        replace(TOPIC, error=Code.UNKNOWN_TOPIC_OR_PARTITION, rights=None, partitions=0, settings=None),
        with_settings(message_timestamp_before_max_ms=2**63 - 1),
        with_settings(compression_type="producer"),
        with_settings(max_message_bytes="no number"),
        replace(TOPIC, settings=None, problem="not allowed"),
    ],
)
def test_nothing_is_made_up_where_nothing_is_known_or_wrong(copy: TopicFacts | None) -> None:
    source = with_settings(max_message_bytes=2_000_000, retention_ms=-1)
    assert grades(of_pair(source, copy)) == {Grade.OK}


def test_a_compacted_source_keeps_its_records() -> None:
    assert grades(of_pair(with_settings(cleanup_policy="compact", retention_ms=1), None)) == {Grade.OK}


def test_topics_of_which_the_same_is_true_are_one_finding() -> None:
    pairs = [TopicPair(replace(TOPIC, name=f"t{number}", rights=frozenset()), None) for number in range(7)]
    (found,) = examined_pairs("orders", pairs)
    assert found.sentence.endswith("t0, t1, t2, t3, t4 and 2 more")
    assert some_of(["a", "b"]) == "a, b"


def test_own_topics_are_there_lacking_rights_or_will_be_made() -> None:
    def grade(facts: TopicFacts | None) -> Grade:
        (found,) = examined_own_topic("headrace-progress", facts, (AclOperation.READ, AclOperation.WRITE))
        return found.grade

    assert grade(TOPIC) is Grade.OK
    assert grade(None) is Grade.NOTE
    assert grade(replace(TOPIC, error=Code.UNKNOWN_TOPIC_OR_PARTITION)) is Grade.NOTE
    assert grade(replace(TOPIC, rights=frozenset({AclOperation.READ}))) is Grade.PROBLEM
    assert grade(replace(TOPIC, rights=None)) is Grade.UNKNOWN
    assert grade(replace(TOPIC, error=Code.TOPIC_AUTHORIZATION_FAILED, rights=None)) is Grade.PROBLEM


def test_the_machine_and_the_settings_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    assert grades(list(examined_host(HostFacts(True, 65_536, 2)))) == {Grade.OK}
    assert grades(list(examined_host(HostFacts(False, 1_024, 2)))) == {Grade.WARNING}
    assert grades(list(examined_host(HostFacts(True, -1, 2)))) == {Grade.OK}  # RLIM_INFINITY
    found = list(examined_settings(load_settings()))
    assert {one.subject for one in found} == {"REST"}
    monkeypatch.setenv("HEADRACE_ZOOKEEPER__ROOT", "/open")
    found = list(examined_settings(load_settings()))
    assert {one.subject for one in found} == {"REST", "ZooKeeper"}


def test_what_serve_refuses_is_a_problem_and_what_is_meant_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_API__HOST", "0.0.0.0")
    (rest,) = examined_settings(load_settings())
    assert (rest.grade, "0.0.0.0" in rest.sentence) == (Grade.PROBLEM, True)
    assert "api.insecure" in rest.advice
    monkeypatch.setenv("HEADRACE_API__INSECURE", "true")
    (rest,) = examined_settings(load_settings())
    assert rest.grade is Grade.WARNING


def test_nobody_there_is_a_finding_each_and_exit_1(headrace: Headrace, write: Write) -> None:
    file = write(
        '[clusters.a]\nbootstrap_servers = "127.0.0.1:1"\n'
        '[clusters.b]\nbootstrap_servers = "127.0.0.1:2"\n'
        '[zookeeper]\nservers = "127.0.0.1:3"\n'
        '[mirror]\ndestination_cluster = "b"\nmetrics_cluster = "b"\n'
        '[mirror.leader]\nload_provider = "pinot"\n'
        '[pinot]\ncontroller = "127.0.0.1:4"\n'
    )
    asked = ("doctor", "--config", str(file), "--at", "127.0.0.1:5", "--patience", "2s")
    shown = headrace(*asked, "--json")
    findings = json.loads(shown.out)
    assert all(one["advice"] for one in findings if one["grade"] == "problem")
    found = {(one["subject"], one["grade"]) for one in findings}
    assert shown.code == 1
    for subject in ("ZooKeeper", "Pinot", "cluster a", "cluster b"):
        assert (subject, "problem") in found
    assert ("service", "note") in found
    text = headrace(*asked)
    assert text.code == 1
    assert text.out.splitlines()[-1].startswith("4 problems")
    assert text.err == ""


def test_a_progress_topic_that_deletes_is_a_problem() -> None:
    facts = replace(TOPIC, settings={"cleanup.policy": "compact,delete"})
    needs = (AclOperation.READ, AclOperation.WRITE)
    (found,) = examined_own_topic("headrace-progress", facts, needs, keeps_progress=True)
    assert found.grade is Grade.PROBLEM
    (other,) = examined_own_topic("headrace-mirror-metrics", facts, needs)
    assert other.grade is Grade.OK


@pytest.mark.parametrize(
    ("here", "there", "grade"),
    [("30", "7", Grade.WARNING), ("-1", "7", Grade.WARNING), ("7", "30", Grade.OK)],
)
def test_a_copy_that_keeps_less_than_its_source_is_remarked_on(here: str, there: str, grade: Grade) -> None:
    source = replace(TOPIC, settings={"retention.bytes": here})
    assert grades(of_pair(source, replace(TOPIC, settings={"retention.bytes": there}))) == {grade}
