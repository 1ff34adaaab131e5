"""Load providers and placement strategies of another package, installed as any other is."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from headrace.planners import check_plug_ins, choose_planner, choose_planning
from headrace.plug_ins.load_answers import CheckedLoads
from headrace.plug_ins.load_provider_contract import LoadProviderContract
from headrace.plug_ins.placement_strategy_contract import PlacementStrategyContract
from headrace.settings import HeadraceSettings, load_settings
from mirror.coordination.placement import SimplePlanner
from mirror.coordination.stores.measured_load import MeasuredLoads
from mirror.errors import ConfigError, LoadUnavailable
from mirror.model.identifiers import ClusterRef
from mirror.model.load import LoadReport, PartitionLoad
from mirror.model.topics import TopicPartition
from mirror.ports import LoadProvider, Planner
from tests.builders import SOURCE
from tests.fakes.instances import AtOnce
from tests.fakes.node_store import FakeZooKeeper
from tests.patience import PATIENCE_SECONDS
from tests.unit.headrace.conftest import Write

EXAMPLE: Final = Path(__file__).parents[2] / "data" / "plug-in"
T0: Final = TopicPartition("t", 0)
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
    assert type(planning.planner).__name__ == "OneEach"
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
    ],
)
def test_an_answer_that_cannot_be_is_none(answer: object, said: str) -> None:
    with pytest.raises(LoadUnavailable, match=f"the load provider mine .*{said}"):
        CheckedLoads("mine", Answers(answer)).loads(SOURCE, [T0])


def test_what_nobody_asked_for_is_left_out_and_notes_are_bounded() -> None:
    other = TopicPartition("other", 1)
    given = LoadReport({other: PartitionLoad(5)}, "x", notes=("y" * 5_000,) * 99, at_least=frozenset({other}))
    found = CheckedLoads("mine", Answers(given)).loads(SOURCE, [T0])
    assert (found.loads, found.at_least, found.provider) == ({}, frozenset(), "mine")
    assert (len(found.notes), len(found.notes[0])) == (20, 1_000)
