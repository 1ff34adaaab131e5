"""Test the names, types and labels of all metrics."""

from __future__ import annotations

import re
from typing import Final

import pytest
from promql_parser import parse

from headrace_dev.reference.of_metrics import DescribedMetric, described
from headrace_dev.reference.other_mirrors import BROOKLIN, MIRROR_MAKER
from tests import promtool
from tests.fakes.site import Site
from tests.metric_names import complaints

EVERY: Final = [one for metrics in described().values() for one in metrics]
IDS: Final = [one.name for one in EVERY]


def test_no_name_is_given_twice() -> None:
    assert len(set(IDS)) == len(IDS) > 60


def test_every_metric_is_named_as_prometheus_wants_it() -> None:
    found = {one.name: list(complaints(one.name, one.kind, one.text)) for one in EVERY}
    assert {name: problems for name, problems in found.items() if problems} == {}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("headrace_lag_ms", "gauge"),
        ("headrace_lag_milliseconds", "gauge"),
        ("headrace_records", "counter"),
        ("headrace_records_total", "gauge"),
        ("headrace_recordLag", "gauge"),
        ("headrace_lag_gauge", "gauge"),
        ("headrace_lag_count", "gauge"),
    ],
)
def test_a_name_that_prometheus_does_not_want_is_found(name: str, kind: str) -> None:
    assert list(complaints(name, kind, "text"))
    if promtool.promtool():
        assert promtool.run("check", "metrics", text=exposed(DescribedMetric(name, kind, "text", ()))).stderr


def exposed(metric: DescribedMetric) -> str:
    """Return the metric with one sample in the exposition format."""
    labels = ",".join(f'{label}="x"' for label in metric.labels)
    head = f"# HELP {metric.name} {metric.text}\n# TYPE {metric.name} {metric.kind}\n"
    if metric.kind != "histogram":
        return f"{head}{metric.name}{{{labels}}} 1\n"
    return (
        f'{head}{metric.name}_bucket{{{labels},le="+Inf"}} 1\n'
        f"{metric.name}_sum{{{labels}}} 1\n{metric.name}_count{{{labels}}} 1\n"
    )


def test_prometheus_own_checker_finds_nothing() -> None:
    """Without promtool, apply the rules of `test_every_metric_is_named_as_prometheus_wants_it`."""
    if promtool.promtool() is None:
        assert not [one for metric in EVERY for one in complaints(metric.name, metric.kind, metric.text)]
        return
    done = promtool.run("check", "metrics", text="".join(map(exposed, EVERY)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_labels_are_those_of_the_samples() -> None:
    site = Site()
    site.create()
    known = {one.name: set(one.labels) for one in EVERY}
    found = {}
    for name, labels in re.findall(r"^(headrace_\w+)(?:\{(.*)\})? ", site.client.get("/metrics").text, re.M):
        family = re.sub(r"_(bucket|sum|count|created)$", "", name)
        found[family] = set(re.findall(r'(\w+)="', labels)) - {"le"}
    assert len(found) > 10
    assert {name: known[name] for name in found} == found


def test_what_other_names_stand_for_is_exported() -> None:
    for row in (*MIRROR_MAKER, *BROOKLIN):
        named = set(re.findall(r"headrace_\w+", row.note))
        if row.ours:
            named |= set(re.findall(r"headrace_\w+", str(parse(row.ours))))
        assert {re.sub(r"_bucket$", "", one) for one in named} <= set(IDS), row.theirs
