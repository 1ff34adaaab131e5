"""Test that our commands cover the operations of Brooklin's `brooklin-rest-client.sh`."""

from __future__ import annotations

import json

from mirror.model.datastreams.datastream import DatastreamStatus
from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace

CREATE = ("create", "m1", "--source", "source-host:9092", "--topics", "^(a|b)$", "--owner", "me")


def test_create_names_the_source_by_its_address(site: Site, headrace: Headrace) -> None:
    assert headrace("datastream", *CREATE).code == 0
    stored = site.stored("m1")
    assert (stored.source, stored.selection.include, stored.metadata["owner"]) == ("source", "^(a|b)$", "me")
    site.tick()
    assert headrace("datastream", "wait", "m1", "--for", "ready", "--timeout", "1s").code == 0


def test_read_and_readall(site: Site, headrace: Headrace) -> None:
    headrace("datastream", *CREATE)
    one = json.loads(headrace("datastream", "get", "m1").out)
    assert [one] == json.loads(headrace("datastream", "list", "--json").out)


def test_update_keeps_the_metadata_that_it_does_not_name(site: Site, headrace: Headrace) -> None:
    headrace("datastream", *CREATE)
    site.tick()
    assert headrace("datastream", "update", "m1", "--set", "ticket=7").code == 0
    assert headrace("datastream", "update", "m1", "--topics", "t").code == 0
    stored = site.stored("m1")
    assert (stored.metadata["owner"], stored.metadata["ticket"]) == ("me", "7")
    assert stored.selection.include == "t"


def test_pause_resume_and_stop(site: Site, headrace: Headrace) -> None:
    headrace("datastream", *CREATE)
    site.tick()
    for action, status in (
        ("pause", DatastreamStatus.PAUSED),
        ("resume", DatastreamStatus.READY),
        ("stop", DatastreamStatus.STOPPING),
    ):
        assert headrace("datastream", action, "m1").code == 0
        assert site.stored("m1").status is status


def test_partitions_are_paused_and_moved(site: Site, headrace: Headrace) -> None:
    site.create("m1")
    assert headrace("datastream", "pause-partitions", "m1", "t:1", "--reason", "why").code == 0
    assert site.stored("m1").pauses["t"].numbers == frozenset({1})
    assert headrace("datastream", "resume-partitions", "m1", "t:1").code == 0
    assert headrace("datastream", "move", "m1", "one", "t-0").code == 0


def test_delete(site: Site, headrace: Headrace) -> None:
    headrace("datastream", *CREATE)
    assert headrace("datastream", "delete", "m1").code == 0
    site.tick()
    assert site.definitions.names() == ()


def test_what_is_refused_has_an_exit_status_and_says_why(site: Site, headrace: Headrace) -> None:
    headrace("datastream", *CREATE)
    site.tick()
    for arguments, said in (
        (CREATE, "m1"),
        (("get", "none"), "none"),
        (("move", "m1", "nobody", "t-0"), "nobody"),
    ):
        shown = headrace("datastream", *arguments)
        assert shown.code in (1, 2), arguments
        assert said in shown.err, arguments
