"""Load providers and placement strategies of another package, installed as any other is."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from headrace.planners import check_plug_ins, choose_planner, choose_planning, choose_strategies
from headrace.plug_ins.load_answers import CheckedLoads, freshness_of
from headrace.plug_ins.load_provider_contract import LoadProviderContract
from headrace.plug_ins.placement_strategy_contract import PlacementStrategyContract
from headrace.plug_ins.plan_answers import CheckedStrategy
from headrace.plug_ins.strategies import ChosenStrategies
from headrace.settings import HeadraceSettings, load_settings
from mirror.coordination.placement import SimplePlanner
from mirror.coordination.stores.measured_load import MeasuredLoads
from mirror.errors import ConfigError, CorruptData, LoadUnavailable, PlanRejected
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.load import Freshness, LoadReport, PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import TopicPartition
from mirror.ports import LoadProvider, Planner
from tests.builders import SOURCE
from tests.fakes.instances import AtOnce
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.site import Site, a_body
from tests.patience import PATIENCE_SECONDS
from tests.unit.headrace.conftest import Write

EXAMPLE: Final = Path(__file__).parents[2] / "data" / "plug-in"
T0: Final = TopicPartition("t", 0)
T1: Final = TopicPartition("t", 1)
ASKED: Final = PlanningRequest(GroupName("g"), (T0, T1), {}, TaskCapacity(100), TaskLimits(), {})
STEADY: Final = """
[mirror.leader]
load_provider = "steady"
[mirror.leader.load_provider_options]
cluster = "source"
topics = "t u"
bytes_per_second = "70"
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the example's wheel."""
    wheels, folder = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("packages")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    install = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet"]
    for command in (
        build,
        [*install, "--target", str(folder), "--find-links", str(wheels), "headrace-example"],
    ):
        subprocess.run(command, cwd=EXAMPLE, capture_output=True, timeout=PATIENCE_SECONDS, check=True)
    return folder


@pytest.fixture(autouse=True)
def _installed(packages: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(packages))
    yield
    sys.modules.pop("headrace_example", None)


def chosen(write: Write, provider: str = "self", strategy: str = "auto") -> HeadraceSettings:
    return load_settings(
        write(f'[mirror.leader]\nload_provider = "{provider}"\nplacement_strategy = "{strategy}"\n')
    )


def steady() -> LoadProvider:
    from headrace.plug_ins.entry_points import load_provider

    return load_provider("steady", {"cluster": "source", "topics": "t u", "bytes_per_second": "70"})


class TestSteady(LoadProviderContract):
    def provider(self) -> LoadProvider:
        return steady()

    def known(self) -> tuple[ClusterRef, Sequence[TopicPartition]]:
        return SOURCE, [T0, TopicPartition("u", 3)]


class TestOneEach(PlacementStrategyContract):
    def strategy(self) -> Planner:
        from headrace.plug_ins.entry_points import placement_strategy

        return placement_strategy("one-each", {})


def test_the_leader_plans_with_the_plug_ins_that_are_chosen(write: Write) -> None:
    settings = load_settings(write(STEADY.replace('"steady"', '"steady"\nplacement_strategy = "one-each"')))
    planning = choose_planning(settings, MeasuredLoads(FakeZooKeeper().session()), AtOnce())
    report = planning.provider.loads(SOURCE, [T0])
    assert (report.provider, report.loads[T0].bytes_per_second) == ("steady", 70)
    assert planning.planner.plan(ASKED).reasons == ("a task for each",)
    assert planning.freshness is not None
    check_plug_ins(settings)


def test_options_are_shown_to_nobody(write: Write) -> None:
    assert "70" not in str(load_settings(write(STEADY)).mirror.leader.load_provider_options)


def test_our_own_strategies_have_names(write: Write) -> None:
    assert isinstance(choose_planner(chosen(write, strategy="simple")), SimplePlanner)
    assert type(choose_planner(chosen(write, strategy="assigner"))).__name__ == "LoadPlanner"


@pytest.mark.parametrize(
    ("provider", "strategy", "said"),
    [
        ("stedy", "auto", r"no load provider 'stedy' \(mirror.leader.load_provider\)"),
        (
            "no-module",
            "auto",
            "'no-module' of headrace_example_missing:make cannot be imported: ModuleNotFound",
        ),
        ("raises-at-import", "auto", "cannot be imported: RuntimeError: its library is too old"),
        ("no-function", "auto", "'no-function' of .* is an object of the type str, not a function"),
        ("no-provider", "auto", "an object of the type object without a method loads"),
        ("raises-when-made", "auto", "cannot be made: RuntimeError: no route to host"),
        ("steady", "auto", "steady cannot use its options: 'bytes_per_second'"),
        ("self", "onn-each", "no placement strategy 'onn-each'"),
        ("self", "no-provider", "without a method plan"),
    ],
)
def test_what_is_wrong_with_a_plug_in_is_said_by_name(
    write: Write, provider: str, strategy: str, said: str
) -> None:
    settings = chosen(write, provider, strategy)
    with pytest.raises(ConfigError, match=said):
        choose_planning(settings, MeasuredLoads(FakeZooKeeper().session()), AtOnce())
    with pytest.raises(ConfigError, match=said):
        check_plug_ins(settings)


def test_an_unknown_name_comes_with_those_that_there_are(write: Write) -> None:
    with pytest.raises(ConfigError) as raised:
        check_plug_ins(chosen(write, "nothing"))
    assert raised.value.advice.startswith("there are self, pinot, none, no-function, no-module")
    with pytest.raises(ConfigError) as raised:
        check_plug_ins(chosen(write, strategy="nothing"))
    assert raised.value.advice == "there are auto, assigner, simple, no-provider, one-each"


SIMPLE: Final = """
[mirror.leader]
placement_strategy = "simple"
[mirror.leader.strategy_options_by_name.one-each]
most = "1"
"""


@pytest.mark.parametrize(
    ("strategy", "chosen_one", "tasks", "said"),
    [
        ("simple", None, 1, "1 task for 2 partitions"),
        ("simple", "simple", 1, "1 task for 2 partitions"),
        ("simple", "one-each", 2, "a task for each"),
        ("one-each", None, 2, "a task for each"),
        ("one-each", "one-each", 2, "a task for each"),
        ("one-each", "simple", 1, "1 task for 2 partitions"),
    ],
)
def test_a_group_is_planned_by_the_strategy_that_it_chooses(
    write: Write, strategy: str, chosen_one: str | None, tasks: int, said: str
) -> None:
    planner = choose_strategies(chosen(write, strategy=strategy))
    answer = planner.plan(replace(ASKED, strategy=chosen_one))
    assert (len(answer.tasks), answer.reasons) == (tasks, (said,))


@pytest.mark.parametrize("name", ["assigner", "auto"])
def test_a_group_may_choose_the_assigner(write: Write, name: str) -> None:
    planner = choose_strategies(chosen(write, strategy="one-each"))
    answer = planner.plan(replace(ASKED, strategy=name))
    assert (answer.defaulted, answer.task_lower_bound) == ((T0, T1), 2)


def test_a_strategy_that_is_not_the_services_has_options_of_its_own(write: Write) -> None:
    settings = load_settings(write(SIMPLE))
    assert "1" not in str(settings.mirror.leader.strategy_options_by_name)
    check_plug_ins(settings)
    assert len(choose_strategies(settings).plan(replace(ASKED, strategy="one-each")).tasks) == 1
    with pytest.raises(ConfigError, match="one-each cannot use its options"):
        check_plug_ins(load_settings(write(SIMPLE.replace('"1"', '"few"'))))
    with pytest.raises(ConfigError, match="no placement strategy 'one-all'"):
        check_plug_ins(load_settings(write(SIMPLE.replace("one-each", "one-all"))))
    with pytest.raises(ConfigError, match="belong to placement_strategy_options"):
        load_settings(write(SIMPLE.replace('"simple"', '"one-each"')))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone", "there is no placement strategy 'gone'"),
        ("no-provider", "an object of the type object without a method plan"),
    ],
)
def test_the_service_plans_in_place_of_a_strategy_that_cannot_be_made(
    write: Write, name: str, said: str
) -> None:
    planner = choose_strategies(chosen(write, strategy="simple"))
    with capture_logs() as logs:
        answers = [planner.plan(replace(ASKED, strategy=name)) for _ in range(3)]
    assert len({answer.reasons for answer in answers}) == 1
    first, second = answers[0].reasons
    assert first.startswith("planned by the strategy of the service: ")
    assert said in first
    assert second == "1 task for 2 partitions"
    assert [(one["log_level"], one["chosen"]) for one in logs] == [("warning", name)], "it is said once"


def test_a_strategy_that_can_be_made_again_takes_its_place(write: Write) -> None:
    tries: Iterator[ConfigError | Planner] = iter(
        (ConfigError("its licence server does not answer"), SimplePlanner())
    )

    def make(_: str) -> Planner:
        found = next(tries)
        if isinstance(found, ConfigError):
            raise found
        return found

    planner = ChosenStrategies(choose_planner(chosen(write, strategy="one-each")), make)
    asked = replace(ASKED, strategy="mine")
    words = [planner.plan(asked).reasons for _ in range(3)]
    assert words[0] == (
        "planned by the strategy of the service: its licence server does not answer",
        "a task for each",
    )
    assert words[1] == words[2] == ("1 task for 2 partitions",)


def test_a_strategy_that_fails_is_not_replaced() -> None:
    planner = ChosenStrategies(SimplePlanner(), lambda name: CheckedStrategy(name, Plans(None)))
    with pytest.raises(PlanRejected, match="the placement strategy mine answers with NoneType"):
        planner.plan(replace(ASKED, strategy="mine"))


@pytest.fixture
def site(write: Write) -> Site:
    return Site(planner=choose_strategies(chosen(write, strategy="simple")))


def patched(site: Site, strategy: str | None, **query: str) -> Any:
    changes = {"placement": {"strategy": strategy}}
    return site.client.patch("/v1/datastreams/orders", json=changes, headers={"If-Match": "*"}, params=query)


def planned(site: Site) -> Any:
    return site.client.get("/v1/datastreams/orders").json()["planning"]


def test_a_datastream_is_planned_by_the_strategy_that_its_definition_names(site: Site) -> None:
    site.create(placement={"strategy": "one-each"})
    assert (planned(site)["tasks"], planned(site)["reasons"][0]) == (2, "a task for each")
    assert site.stored("orders").metadata["headrace-placement"] == "strategy one-each"
    assert patched(site, None).json()["placement"]["strategy"] is None
    ask = {"datastream": "orders", "dry_run": True}
    assert "1 task for 2 partitions" in site.client.post("/v1/rebalance", json=ask).text
    assert patched(site, "one-each").status_code == 200
    assert "a task for each" in site.client.post("/v1/rebalance", json=ask).text


def test_a_strategy_that_is_not_installed_is_refused_with_those_that_are(site: Site) -> None:
    answers = [site.client.post("/v1/datastreams", json=a_body(placement={"strategy": "gone"}))]
    metadata = {"owner": "tests", "headrace-placement": "strategy gone"}
    answers.append(site.client.post("/v1/datastreams", json=a_body(metadata=metadata)))
    site.create()
    answers += [patched(site, "gone"), patched(site, "gone", dry_run="true")]
    for answer in answers:
        problem = answer.json()
        assert answer.status_code == 400, answer.text
        assert [one["pointer"] for one in problem["errors"]] == ["/placement/strategy"]
        assert "there is no placement strategy 'gone'" in problem["detail"]
        assert problem["advice"] == "there are auto, assigner, simple, no-provider, one-each"
    restli = {
        "name": "old",
        "connectorName": "headrace",
        "transportProviderName": "kafkaTransportProvider",
        "source": {"connectionString": "kafka://source-host:9092/t"},
        "metadata": metadata,
    }
    over_brooklin = site.client.post("/datastream", json=restli)
    assert over_brooklin.status_code == 400
    assert "there is no placement strategy 'gone'" in over_brooklin.text


def test_people_see_that_the_strategy_they_chose_is_not_used(
    site: Site, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one != str(packages)])
    stored = a_body()
    assert site.client.post("/v1/datastreams", json=stored).status_code == 201
    found = site.definitions.get(DatastreamName("orders"))
    metadata = {**found.datastream.metadata, "headrace-placement": "strategy one-each"}
    site.definitions.replace(found, replace(found.datastream, metadata=metadata))
    site.tick()
    first, second, *_ = planned(site)["reasons"]
    assert first.startswith("planned by the strategy of the service: ")
    assert "there is no placement strategy 'one-each'" in first
    assert second == "1 task for 2 partitions"
    assert patched(site, "one-each").status_code == 200, "what is stored already may be sent back"


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 64, "-"])
def test_names_that_cannot_be_are_refused(write: Write, name: str) -> None:
    with pytest.raises(ConfigError, match="load_provider"):
        chosen(write, name)


class Answers:
    def __init__(self, answer: object) -> None:
        self.answer = answer

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        return self.answer  # type: ignore[return-value] # hostile on purpose


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "answers with NoneType, not LoadReport"),
        ({T0: 5.0}, "answers with dict"),
        (LoadReport({T0: 5.0}, "x"), "t-0: float is no PartitionLoad"),  # type: ignore[dict-item]
        (LoadReport({T0: PartitionLoad(math.nan)}, "x"), "t-0: nan bytes per second"),
        (LoadReport({T0: PartitionLoad(math.inf)}, "x"), "inf bytes per second"),
        (LoadReport({T0: PartitionLoad(-1)}, "x"), "-1 bytes per second"),
        (LoadReport({T0: PartitionLoad(1, 1e300)}, "x"), "1e.300 messages per second"),
        (LoadReport({T0: PartitionLoad(True)}, "x"), "bytes per second are bool"),
        (LoadReport({T0: PartitionLoad(1, measured_at_ms=-5)}, "x"), "measured at -5"),
        (LoadReport({T0: PartitionLoad(10**400)}, "x"), "a value of type int bytes per second"),
        (LoadReport({T0: PartitionLoad(1, level="exact")}, "x"), "level 'exact' and source"),  # type: ignore[arg-type]
        (LoadReport({T0: PartitionLoad(1, level=[])}, "x"), "level a value of type list"),  # type: ignore[arg-type]
        (LoadReport(None, "x"), "has loads in NoneType"),  # type: ignore[arg-type]
        (LoadReport({}, "x", notes=None), "has notes in NoneType"),  # type: ignore[arg-type]
        (LoadReport({}, "x", notes="late"), "has notes in str"),  # type: ignore[arg-type]
        (LoadReport({}, "x", at_least=None), "lower bounds that are no partitions"),  # type: ignore[arg-type]
        (LoadReport({}, "x", at_least=[[]]), "lower bounds that are no partitions"),  # type: ignore[arg-type]
        (LoadReport({}, "x", "now"), "measured at 'now'"),  # type: ignore[arg-type]
        (LoadReport({}, "x", math.nan), "measured at nan"),  # type: ignore[arg-type]
        (LoadReport({}, "x", 10**18), "measured at a value of type int"),
    ],
)
def test_an_answer_that_cannot_be_is_none(answer: object, said: str) -> None:
    with pytest.raises(LoadUnavailable, match=f"the load provider mine .*{said}"):
        CheckedLoads("mine", Answers(answer)).loads(SOURCE, [T0])


class Ages(Answers):
    def freshness(self, cluster: ClusterRef) -> Freshness:
        return self.answer  # type: ignore[return-value] # hostile on purpose


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "answers with NoneType, not Freshness"),
        (5, "answers with int"),
        (Freshness("now", 5), "measured at 'now'"),  # type: ignore[arg-type]
        (Freshness(math.nan, 5), "measured at nan"),  # type: ignore[arg-type]
        (Freshness(True, 5), "measured at True"),
        (Freshness(10**18, 5), "measured at a value of type int"),
        (Freshness(5, None), "stale after None, not a number"),  # type: ignore[arg-type]
        (Freshness(5, math.nan), "stale after nan milliseconds"),  # type: ignore[arg-type]
        (Freshness(5, -1), "stale after -1 milliseconds"),
        (Freshness(5, 5, behind="some"), "None partitions with 'some' behind"),  # type: ignore[arg-type]
        (Freshness(5, 5, measured=-3), "-3 partitions with 0 behind"),
    ],
)
def test_an_age_that_cannot_be_is_an_outage_that_is_said(answer: object, said: str) -> None:
    ask = freshness_of("mine", Ages(answer))
    assert ask is not None
    with pytest.raises(CorruptData, match=f"the load provider mine .*{said}"):
        ask(SOURCE)


def test_an_age_that_can_be_is_believed() -> None:
    ask = freshness_of("mine", Ages(Freshness(5, 60_000, 7, 1)))
    assert ask is not None
    assert ask(SOURCE) == Freshness(5, 60_000, 7, 1)
    assert freshness_of("mine", Answers(None)) is None


def test_what_nobody_asked_for_is_left_out_and_notes_are_bounded() -> None:
    other = TopicPartition("other", 1)
    given = LoadReport({other: PartitionLoad(5)}, "x", notes=("y" * 5_000,) * 99, at_least=frozenset({other}))
    found = CheckedLoads("mine", Answers(given)).loads(SOURCE, [T0])
    assert (found.loads, found.at_least, found.provider) == ({}, frozenset(), "mine")
    assert (len(found.notes), len(found.notes[0])) == (20, 1_000)


class Plans:
    def __init__(self, answer: object) -> None:
        self.answer = answer

    def plan(self, request: PlanningRequest) -> GroupPlan:
        return self.answer  # type: ignore[return-value] # hostile on purpose


def a_plan(tasks: Any, loads: Any = MappingProxyType({}), required: Any = 1, **more: Any) -> GroupPlan:
    return GroupPlan(tasks, loads, required, **more)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "answers with NoneType, not GroupPlan"),
        (a_plan(None), "tasks that are not by name"),
        (a_plan({7: frozenset({T0})}), "tasks that are not by name"),
        (a_plan({"g-0": None}), "gives 'g-0' something else than partitions"),
        (a_plan({"g-0": {"t-0"}}), "gives 'g-0' something else than partitions"),
        (a_plan({"g-0": {T0}}, None), "loads that are not finite rates"),
        (a_plan({"g-0": {T0}}, {"g-0": math.nan}), "loads that are not finite rates"),
        (a_plan({"g-0": {T0}}, {"g-0": math.inf}), "loads that are not finite rates"),
        (a_plan({"g-0": {T0}}, {"g-0": 10**400}), "loads that are not finite rates"),
        (a_plan({"g-0": {T0}}, {"g-0": -1}), "loads that are not finite rates"),
        (a_plan({"g-0": {T0}}, {}, None), "says required_tasks is None"),
        (a_plan({"g-0": {T0}}, {}, -5), "says required_tasks is -5"),
        (a_plan({"g-0": {T0}}, {}, 1.5), "says required_tasks is 1.5"),
        (a_plan({"g-0": {T0}}, cut_short=True), "says cut_short is True"),
        (a_plan({"g-0": {T0}}, moved_bytes_per_second=math.nan), "says moved_bytes_per_second is nan"),
        (a_plan({"g-0": {T0}}, reasons="one"), "says reasons is 'one'"),
        (a_plan({"g-0": {T0}}, reasons=None), "says reasons is None"),
        (a_plan({"g-0": {T0}}, offending=("t-0",)), "says offending is a value"),
        (a_plan({"g-0": {T0}}, overloaded=(1,)), "says overloaded is a value"),
        (a_plan({"g-0": {T0}}, stage=None), "says stage is None"),
        (a_plan({"g-0": {T0}}, move_reasons={T0: None}), "causes of moves that are not texts"),
    ],
)
def test_a_plan_that_cannot_be_is_none(answer: object, said: str) -> None:
    with pytest.raises(PlanRejected, match=f"the placement strategy mine .*{said}"):
        CheckedStrategy("mine", Plans(answer)).plan(ASKED)


@pytest.mark.parametrize("task", ["h-0", "g", "g-", "g-00", "g--1", "g-٣", "g-0/x", ""])
def test_a_task_has_a_name_of_its_group(task: str) -> None:
    with pytest.raises(PlanRejected, match="cannot be a task of g"):
        CheckedStrategy("mine", Plans(a_plan({task: {T0}}))).plan(ASKED)


def test_partitions_that_a_plan_does_not_name_have_no_task() -> None:
    answer = a_plan({"g-0": [T0]}, reasons=("\ud800" * 5_000,))
    found = CheckedStrategy("mine", Plans(answer)).plan(ASKED)
    assert found.tasks == {"g-0": frozenset({T0})}
    assert found.unplaced == (T1,)
    assert len(found.reasons[0].encode()) <= 1_003
