"""Network namespaces that killed runs of `python -m bench distance` have left."""

from __future__ import annotations

from bench.distance.link import orphans


def test_only_namespaces_of_ended_runs_are_deleted() -> None:
    names = [
        "headrace-far-10",
        "headrace-near-10",
        "headrace-far-11",
        "headrace-near-12x",
        "blue",
        "headrace-far-",
    ]
    assert orphans(names, lambda process: process == 11) == ["headrace-far-10", "headrace-near-10"]
