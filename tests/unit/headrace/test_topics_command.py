"""`headrace topics`: evidence, dry runs, steps and restorations."""

from __future__ import annotations

import json

import pytest

from headrace.errors import EXIT_USAGE
from tests.fakes.site import Site, no_cluster
from tests.unit.api.test_topics import a_retirement
from tests.unit.headrace.conftest import Headrace

TOPIC = ("t", "--cluster", "source")


def test_retirements_are_shown_continued_and_restored(site: Site, headrace: Headrace) -> None:
    site.services.retirements.store.begin(a_retirement())
    assert "t" in headrace("topics", "retirements").out
    assert json.loads(headrace("topics", "retirements", "--json").out)[0]["phase"] == "sealed"
    for options in ((), ("--execute",)):
        shown = headrace("topics", "retire", *TOPIC, *options)
        assert (shown.code, "sealed" in shown.out) == (0, True)
    assert json.loads(headrace("topics", "retire", *TOPIC, "--json").out)["is_dry_run"]
    assert headrace("topics", "restore", *TOPIC).code == 0
    assert headrace("topics", "restore", *TOPIC).code != 0
    assert headrace("topics", "retirements").code == 0


def test_a_cluster_that_does_not_respond_is_reported(site: Site, headrace: Headrace) -> None:
    site.ask_cluster = no_cluster
    for command in (("unused", "--cluster", "source"), ("retire", *TOPIC)):
        shown = headrace("topics", *command)
        assert shown.code not in (0, EXIT_USAGE)
        assert "source" in shown.err


@pytest.mark.parametrize("options", [("--wait", "soon"), ("--days", "-1")])
def test_impossible_options_are_refused(site: Site, headrace: Headrace, options: tuple[str, ...]) -> None:
    assert headrace("topics", "retire", *TOPIC, *options).code == EXIT_USAGE
