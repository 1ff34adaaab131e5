"""Test load providers and placement strategies from another installed package."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from headrace.placement.planners import check_plug_ins, choose_planner, choose_planning
from headrace.plug_ins import names
from headrace.plug_ins.load_answers import CheckedLoads, freshness_of
from headrace.plug_ins.load_provider_contract import LoadProviderContract
from headrace.plug_ins.placement_strategy_contract import PlacementStrategyContract
from headrace.plug_ins.plan_answers import CheckedStrategy
from headrace.settings import HeadraceSettings, load_settings
from mirror.coordination.placement import SimplePlanner
from mirror.coordination.stores.measured_load import MeasuredLoads
from mirror.errors import ConfigError, CorruptData, LoadUnavailable, PlanRejected, TimedOut
from mirror.instance.background_calls import PatientLoads, ThreadedCalls
from mirror.model.identifiers import ClusterRef
from mirror.model.load import Freshness, LoadReport, PartitionLoad
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.reasons import reason_of
from mirror.model.topics import TopicPartition
from mirror.ports import LoadProvider, Planner
from tests.builders import SOURCE, SOURCE_LOADS
from tests.fakes.clock import ManualClock
from tests.fakes.instances import AtOnce
from tests.fakes.node_store import FakeZooKeeper
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.unit.headrace.conftest import ASKED, T0, T1, Write

pytestmark = pytest.mark.usefixtures("installed")
STEADY: Final = """
[mirror.leader]
load_provider = "steady"
[mirror.leader.load_provider_options]
cluster = "source"
topics = "t u"
bytes_per_second = "70"
"""


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
    report = planning.providers.of(SOURCE_LOADS).loads(SOURCE, [T0])
    assert (report.provider, report.loads[T0].bytes_per_second) == ("steady", 70)
    assert planning.planner.plan(ASKED).reasons == ("a task for each",)
    assert planning.providers.freshness_of(SOURCE_LOADS) is not None
    check_plug_ins(settings)


def test_options_are_shown_to_nobody(write: Write) -> None:
    assert "70" not in str(load_settings(write(STEADY)).mirror.leader.load_provider_options)


def test_our_own_strategies_have_names(write: Write) -> None:
    assert isinstance(choose_planner(chosen(write, strategy="simple")), SimplePlanner)
    assert not isinstance(choose_planner(chosen(write, strategy="assigner")), SimplePlanner)


def test_an_instance_that_plans_nothing_does_not_load_the_libraries_of_the_planner() -> None:
    code = """if True:
        import sys
        import headrace.wiring
        from headrace.placement.planners import choose_planner
        from headrace.settings import HeadraceSettings
        choose_planner(HeadraceSettings(clusters={"east": {"bootstrap_servers": "east:9092"}}))
        print(*{"numpy", "ortools", "pandas", "scipy"} & set(sys.modules))
    """
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("provider", "strategy", "said"),
    [
        ("stedy", "auto", r"'stedy' \(mirror.leader.load_provider\)"),
        (
            "no-module",
            "auto",
            "'no-module' .*headrace_example_missing:make: ModuleNotFound",
        ),
        ("raises-at-import", "auto", "import .*'raises-at-import' .*: RuntimeError"),
        ("no-function", "auto", "'no-function' .*str\\b"),
        ("no-provider", "auto", "'no-provider' .*loads"),
        ("raises-when-made", "auto", "create .*'raises-when-made' .*: RuntimeError"),
        ("exits-at-import", "auto", "import .*'exits-at-import' .*: SystemExit: 3"),
        ("exits-when-made", "auto", "create .*'exits-when-made' .*: SystemExit: 3"),
        ("interrupts-when-made", "auto", "create .*'interrupts-when-made' .*: KeyboardInterrupt"),
        ("steady", "auto", "steady .*'bytes_per_second'"),
        ("self", "onn-each", "'onn-each'"),
        ("self", "no-provider", "no-provider.*plan"),
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


def test_names_are_looked_up_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, there = ManualClock(), ["auto"]
    monkeypatch.setattr(names, "strategy_names", lambda: tuple(there))
    found = names.PlugInNames(clock.monotonic)
    assert list(found.strategies) == ["auto"]
    there.append("one-each")
    clock.advance(59)
    assert (list(found.strategies), "self" in found.load_providers) == (["auto"], True)
    clock.advance(2)
    assert list(found.strategies) == ["auto", "one-each"]


def test_an_unknown_name_comes_with_those_that_there_are(write: Write) -> None:
    with pytest.raises(ConfigError) as raised:
        check_plug_ins(chosen(write, "nothing"))
    known = {"self", "pinot", "none", "exits-at-import", "exits-when-made"}
    assert known <= set(re.findall(r"[\w-]+", raised.value.advice))
    with pytest.raises(ConfigError) as raised:
        check_plug_ins(chosen(write, strategy="nothing"))
    known = {"auto", "assigner", "simple", "no-provider", "one-each"}
    assert known <= set(re.findall(r"[\w-]+", raised.value.advice))


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 64, "-"])
def test_names_that_cannot_be_are_refused(write: Write, name: str) -> None:
    with pytest.raises(ConfigError, match="load_provider"):
        chosen(write, name)


def test_a_name_that_two_packages_have_is_nobodys(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[headrace.load_providers]\nsteady = other:make\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    said = "2 packages .*'steady': headrace_example:steady_loads, other:make"
    with pytest.raises(ConfigError, match=said):
        check_plug_ins(chosen(write, "steady"))


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Raises:
    """A provider and strategy that raises an error on every call."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        raise self.error

    def freshness(self, cluster: ClusterRef) -> Freshness:
        raise self.error

    def plan(self, request: PlanningRequest) -> GroupPlan:
        raise self.error


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_would_end_a_thread_is_a_failure_of_the_plug_in(error: BaseException) -> None:
    """The leader continues with its fallback: the last known loads, the tasks in force."""
    said = f"(load provider|placement strategy) mine .*{type(error).__name__}"
    calls = ThreadedCalls(PATIENCE_SECONDS, lambda: None)
    provider = PatientLoads(CheckedLoads("mine", Raises(error)), calls)
    for _ in range(2):  # the calling thread survives
        with pytest.raises(LoadUnavailable, match=said):
            provider.loads(SOURCE, [T0])
    ask = freshness_of("mine", Raises(error))
    assert ask is not None
    with pytest.raises(CorruptData, match=said):
        ask(SOURCE)
    with pytest.raises(PlanRejected, match=said):
        CheckedStrategy("mine", Raises(error)).plan(ASKED)


def test_an_error_that_cannot_say_what_it_is_is_told_by_its_class() -> None:
    with pytest.raises(Unspeakable) as raised:
        CheckedStrategy("mine", Raises(Unspeakable())).plan(ASKED)
    assert reason_of(raised.value) == "unexpected Unspeakable"


class Hangs:
    """A strategy that responds only after `let_go` is set."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked = 0

    def plan(self, request: PlanningRequest) -> GroupPlan:
        self.asked += 1
        self.let_go.wait(PATIENCE_SECONDS)
        return a_plan({"g-0": {T0, T1}})


def test_a_strategy_that_hangs_holds_nobody_up() -> None:
    """It is not called again until it has returned, and is then used as before."""
    hanging = Hangs()
    strategy = CheckedStrategy("mine", hanging, 0.01)
    with pytest.raises(TimedOut, match=r"placement strategy mine .*0\.01 s"):
        strategy.plan(ASKED)
    with pytest.raises(TimedOut, match=r"mine .*earlier call"):
        strategy.plan(ASKED)
    assert hanging.asked == 1
    hanging.let_go.set()
    wait_until(lambda: _answers(strategy))


def _answers(strategy: CheckedStrategy) -> bool:
    try:
        return strategy.plan(ASKED).tasks == {"g-0": frozenset({T0, T1})}
    except TimedOut:
        return False


class Answers:
    def __init__(self, answer: object) -> None:
        self.answer = answer

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        return self.answer  # type: ignore[return-value] # hostile on purpose


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "NoneType, .*LoadReport"),
        ({T0: 5.0}, "dict"),
        (LoadReport({T0: 5.0}, "x"), "t-0: float, .*PartitionLoad"),  # type: ignore[dict-item]
        (LoadReport({T0: PartitionLoad(math.nan)}, "x"), "t-0: nan bytes per second"),
        (LoadReport({T0: PartitionLoad(math.inf)}, "x"), "inf bytes per second"),
        (LoadReport({T0: PartitionLoad(-1)}, "x"), "-1 bytes per second"),
        (LoadReport({T0: PartitionLoad(1, 1e300)}, "x"), "1e.300 messages per second"),
        (LoadReport({T0: PartitionLoad(True)}, "x"), "bytes per second .*bool"),
        (LoadReport({T0: PartitionLoad(1, measured_at_ms=-5)}, "x"), "measured_at_ms .*-5"),
        (LoadReport({T0: PartitionLoad(10**400)}, "x"), "int bytes per second"),
        (LoadReport({T0: PartitionLoad(1, level="exact")}, "x"), "level 'exact'"),  # type: ignore[arg-type]
        (LoadReport({T0: PartitionLoad(1, level=[])}, "x"), "level .*list"),  # type: ignore[arg-type]
        (LoadReport(None, "x"), "loads .*NoneType"),  # type: ignore[arg-type]
        (LoadReport({}, "x", notes=None), "notes .*NoneType"),  # type: ignore[arg-type]
        (LoadReport({}, "x", notes="late"), "notes .*str"),  # type: ignore[arg-type]
        (LoadReport({}, "x", at_least=None), "at_least"),  # type: ignore[arg-type]
        (LoadReport({}, "x", at_least=[[]]), "at_least"),  # type: ignore[arg-type]
        (LoadReport({}, "x", "now"), "measured_at_ms .*'now'"),  # type: ignore[arg-type]
        (LoadReport({}, "x", math.nan), "measured_at_ms .*nan"),  # type: ignore[arg-type]
        (LoadReport({}, "x", 10**18), "measured_at_ms .*int"),
    ],
)
def test_an_answer_that_cannot_be_is_none(answer: object, said: str) -> None:
    with pytest.raises(LoadUnavailable, match=f"load provider mine .*{said}"):
        CheckedLoads("mine", Answers(answer)).loads(SOURCE, [T0])


class Ages(Answers):
    def freshness(self, cluster: ClusterRef) -> Freshness:
        return self.answer  # type: ignore[return-value] # hostile on purpose


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "NoneType, .*Freshness"),
        (5, "int"),
        (Freshness("now", 5), "measured_at_ms .*'now'"),  # type: ignore[arg-type]
        (Freshness(math.nan, 5), "measured_at_ms .*nan"),  # type: ignore[arg-type]
        (Freshness(True, 5), "measured_at_ms .*True"),
        (Freshness(10**18, 5), "measured_at_ms .*int"),
        (Freshness(5, None), "stale_after_ms None"),  # type: ignore[arg-type]
        (Freshness(5, math.nan), "stale_after_ms nan"),  # type: ignore[arg-type]
        (Freshness(5, -1), "stale_after_ms -1"),
        (Freshness(5, 5, behind="some"), "behind 'some'"),  # type: ignore[arg-type]
        (Freshness(5, 5, measured=-3), "measured -3"),
    ],
)
def test_an_age_that_cannot_be_is_an_outage_that_is_said(answer: object, said: str) -> None:
    ask = freshness_of("mine", Ages(answer))
    assert ask is not None
    with pytest.raises(CorruptData, match=f"load provider mine .*{said}"):
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
        (None, "NoneType, .*GroupPlan"),
        (a_plan(None), "tasks"),
        (a_plan({7: frozenset({T0})}), "tasks"),
        (a_plan({"g-0": None}), "task 'g-0'"),
        (a_plan({"g-0": {"t-0"}}), "task 'g-0'"),
        (a_plan({"g-0": {T0}}, None), "loads_bytes_per_second"),
        (a_plan({"g-0": {T0}}, {"g-0": math.nan}), "loads_bytes_per_second"),
        (a_plan({"g-0": {T0}}, {"g-0": math.inf}), "loads_bytes_per_second"),
        (a_plan({"g-0": {T0}}, {"g-0": 10**400}), "loads_bytes_per_second"),
        (a_plan({"g-0": {T0}}, {"g-0": -1}), "loads_bytes_per_second"),
        (a_plan({"g-0": {T0}}, {}, None), "required_tasks: None"),
        (a_plan({"g-0": {T0}}, {}, -5), "required_tasks: -5"),
        (a_plan({"g-0": {T0}}, {}, 1.5), "required_tasks: 1.5"),
        (a_plan({"g-0": {T0}}, cut_short=True), "cut_short: True"),
        (a_plan({"g-0": {T0}}, moved_bytes_per_second=math.nan), " moved_bytes_per_second: nan"),
        (a_plan({"g-0": {T0}}, reasons="one"), " reasons: 'one'"),
        (a_plan({"g-0": {T0}}, reasons=None), " reasons: None"),
        (a_plan({"g-0": {T0}}, offending=("t-0",)), "offending: a value"),
        (a_plan({"g-0": {T0}}, overloaded=(1,)), "overloaded: a value"),
        (a_plan({"g-0": {T0}}, stage=None), "stage: None"),
        (a_plan({"g-0": {T0}}, move_reasons={T0: None}), "move_reasons"),
    ],
)
def test_a_plan_that_cannot_be_is_none(answer: object, said: str) -> None:
    with pytest.raises(PlanRejected, match=f"placement strategy mine .*{said}"):
        CheckedStrategy("mine", Plans(answer)).plan(ASKED)


@pytest.mark.parametrize("task", ["h-0", "g", "g-", "g-00", "g--1", "g-٣", "g-0/x", ""])
def test_a_task_has_a_name_of_its_group(task: str) -> None:
    with pytest.raises(PlanRejected, match="group g"):
        CheckedStrategy("mine", Plans(a_plan({task: {T0}}))).plan(ASKED)


def test_partitions_that_a_plan_does_not_name_have_no_task() -> None:
    answer = a_plan({"g-0": [T0]}, reasons=("\ud800" * 5_000,))
    found = CheckedStrategy("mine", Plans(answer)).plan(ASKED)
    assert found.tasks == {"g-0": frozenset({T0})}
    assert found.unplaced == (T1,)
    assert len(found.reasons[0].encode()) <= 1_003
