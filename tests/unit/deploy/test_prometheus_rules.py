"""deploy/prometheus: rules that Prometheus accepts, on existing metrics, tested firing and quiet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from promql_parser import parse

from headrace_dev.reference.of_metrics import described
from monitor.alerts.catalogue import CATALOGUE
from tests import promtool

pytestmark = pytest.mark.long

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = ROOT / "deploy/prometheus"
_RULES: Final[Any] = yaml.safe_load((FOLDER / "headrace.rules.yaml").read_text(encoding="utf-8"))
RULES: Final[list[Any]] = [rule for group in _RULES["groups"] for rule in group["rules"]]
ALERTS: Final = [rule for rule in RULES if "alert" in rule]
RECORDED: Final = {rule["record"] for rule in RULES if "record" in rule}
_SHOWN: Final[Any] = yaml.safe_load((FOLDER / "headrace.tests.yaml").read_text(encoding="utf-8"))
SHOWN: Final[list[Any]] = _SHOWN["tests"]
EXPORTED: Final = {one.name: one for metrics in described().values() for one in metrics}
NAME: Final = re.compile(r"(?<![\w:])((?:\w+:)?headrace\w*(?::\w+)*)(?=[\s{)\[]|$)")


def name_of(rule: Any) -> str:
    return str(rule.get("alert") or rule["record"])


@pytest.mark.parametrize("rule", RULES, ids=name_of)
def test_a_rule_is_about_metrics_that_there_are(rule: Any) -> None:
    expression = str(parse(rule["expr"]))
    named = set(NAME.findall(re.sub(r'"[^"]*"', '""', expression)))
    known = {*EXPORTED, *RECORDED, "headrace_latency_seconds_bucket"}
    assert named or "up{" in expression
    assert named <= known


def test_a_metric_that_there_is_not_is_found() -> None:
    assert NAME.findall("sum by (datastream) (headrace_nothing{a=''})") == ["headrace_nothing"]


@pytest.mark.parametrize("rule", ALERTS, ids=name_of)
def test_an_alert_says_what_is_and_where_to_read_on(rule: Any) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert set(rule["annotations"]) == {"summary", "runbook_url"}
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    headings = re.findall(r"^## (\w+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert rule["alert"] in headings
    assert anchor == rule["alert"].lower()


def test_every_section_of_the_page_is_of_an_alert() -> None:
    page = (ROOT / "docs/prometheus.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == [rule["alert"] for rule in ALERTS]


def test_no_name_is_one_of_the_monitors_alerts() -> None:
    names = [rule["alert"] for rule in ALERTS]
    assert len(set(names)) == len(names)
    assert not set(names) & {kind.name for kind in CATALOGUE}


@pytest.mark.parametrize("rule", ALERTS, ids=name_of)
def test_an_alert_is_shown_where_it_fires_and_where_it_must_not(rule: Any) -> None:
    shown = [
        bool(one["exp_alerts"])
        for case in SHOWN
        for one in case.get("alert_rule_test", ())
        if one["alertname"] == rule["alert"]
    ]
    assert set(shown) == {True, False}


def test_what_is_recorded_is_shown() -> None:
    shown = {one["expr"] for case in SHOWN for one in case.get("promql_expr_test", ())}
    fired = {"headrace:leaders:sum", "datastream:headrace_time_to_loss_seconds:min"}  # tested by their alerts
    assert shown | fired == RECORDED


def test_prometheus_evaluates_them_as_they_are_shown() -> None:
    """Without promtool the rules are only parsed, not evaluated, as the header of the run reports."""
    if promtool.promtool() is None:
        assert all(parse(rule["expr"]) for rule in RULES)
        return
    for words in (("check", "rules", "headrace.rules.yaml"), ("test", "rules", "headrace.tests.yaml")):
        done = promtool.run(*words[:-1], str(FOLDER / words[-1]))
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_rule_that_is_wrong_is_found(tmp_path: Path) -> None:
    text = (FOLDER / "headrace.rules.yaml").read_text(encoding="utf-8")
    broken = text.replace("headrace:leaders:sum == 0", "headrace:leaders:sum == 1")
    assert broken != text
    (tmp_path / "headrace.rules.yaml").write_text(broken, encoding="utf-8")
    leaders = [case for case in SHOWN if "leader" in case["name"]]
    assert leaders
    (tmp_path / "headrace.tests.yaml").write_text(
        yaml.safe_dump({**_SHOWN, "tests": leaders}), encoding="utf-8"
    )
    if promtool.promtool():
        assert promtool.run("test", "rules", str(tmp_path / "headrace.tests.yaml")).returncode == 1
    with pytest.raises(ValueError, match="invalid promql"):
        parse("sum by (datastream) headrace_leader >")
