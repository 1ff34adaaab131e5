"""Test that `headrace datastream create` and `update` have an option for every field of /v1."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import pytest
import typer
from pydantic import BaseModel

from api.resources.datastreams.datastream_models import DatastreamBody
from headrace.__main__ import app
from headrace.console.datastreams.fields import FIELDS, document_of, patch_of
from mirror.errors import InvalidRequest
from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace

EVERYTHING = """
    --topics t|u --owner me --source source --exclude x --internal --match-all
    --destination destination --rename copy.* --shared --grow-existing --adopt
    --exclude-setting retention.ms --exclude-setting segment.bytes
    --start latest --start-position t:0=12 --start-position *:1=7
    --guarantee at-least-once --isolation read-uncommitted
    --on-loss continue --on-rejection skip --path record --transform drop-header:a --transform drop-header:b
    --bytes-per-second 1000 --min-tasks 2 --max-tasks 3 --max-partitions-per-task 4 --objective-ms 500
    --objective-percentile 95 --monitor observe --canary --audit sampled
    --capacity 20971520 --capacity-messages 5000 --utilisation 80 --headroom 0.3
    --strategy simple --load-provider none
    --groups g.* --exclude-groups g1 --groups-interval 0.5 --groups-direction both --set note=a=b
"""
OBJECTIVES = ("--slo", "within 2 s, 99.5 %", "--slo", "p95 within 500 ms over 5 m, 99 % over 7 d")
DEFINITION = {
    "name": "orders",
    "owner": "me",
    "source": {
        "cluster": "source",
        "topics": "t|u",
        "exclude": "x",
        "internal": True,
        "match_all": False,  # stated explicitly, and false
    },
    "destination": {
        "cluster": "destination",
        "name": "copy.*",
        "shared": True,
        "grow_existing": True,
        "adopt": True,
        "excluded_settings": ["retention.ms", "segment.bytes"],
    },
    "start": "latest",
    "start_positions": {"t": {"0": 12}, "*": {"1": 7}},
    "guarantee": "at-least-once",
    "policies": {
        "isolation": "read-uncommitted",
        "on_loss": "continue",
        "on_rejection": "skip",
        "path": "record",
        "transforms": ["drop-header:a", "drop-header:b"],
    },
    "quota": {"bytes_per_second": 1000},
    "limits": {"min_tasks": 2, "max_tasks": 3, "max_partitions_per_task": 4},
    "objective": {"milliseconds": 500, "percentile": 95.0},
    "objectives": [
        {
            "milliseconds": 2000,
            "target_percent": 99.5,
            "percentile": 99.0,
            "window_seconds": 60,
            "period_days": 30,
        },
        {
            "milliseconds": 500,
            "target_percent": 99.0,
            "percentile": 95.0,
            "window_seconds": 300,
            "period_days": 7,
        },
    ],
    "monitor": "observe",
    "canary": True,
    "audit": "sampled",
    "groups": {"include": "g.*", "exclude": "g1", "interval_seconds": 0.5, "direction": "both"},
    "placement": {
        "capacity_bytes_per_second": 20971520,
        "capacity_messages_per_second": 5000,
        "utilisation_percent": 80,
        "scale_in_headroom": 0.3,
        "strategy": "simple",
        "load_provider": "none",
    },
}
FIXED = {
    ("source", "cluster"),
    ("destination", "cluster"),
    ("destination", "name"),
    ("start",),
    ("start_positions",),
}


def leaves(model: type[BaseModel], *place: str) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        inner = [one for one in (field.annotation, *get_args(field.annotation)) if isinstance(one, type)]
        nested = [one for one in inner if issubclass(one, BaseModel)]
        if nested and get_origin(field.annotation) is not list:
            yield from leaves(nested[0], *place, name)
        else:
            yield (*place, name)


def options_of(command: str) -> set[str]:
    group: Any = typer.main.get_command(app)
    return {one.name for one in group.commands["datastream"].commands[command].params}


def test_every_field_of_a_definition_is_an_option() -> None:
    wanted = set(leaves(DatastreamBody)) - {("name",), ("metadata",)}
    assert {one.place for one in FIELDS} == wanted
    assert {one.place for one in FIELDS if not one.may_change} == FIXED


def test_both_commands_have_what_the_table_has() -> None:
    names = {one.name for one in FIELDS}
    assert names <= options_of("create")
    assert {one.name for one in FIELDS if one.may_change} == names & options_of("update")


def test_a_datastream_is_created_with_every_field(site: Site, headrace: Headrace) -> None:
    cause = ("--reason", "ticket 7", "--by", "me")
    done = headrace("datastream", "create", "orders", *EVERYTHING.split(), *OBJECTIVES, *cause, "--json")
    assert done.code == 0, done.err
    (event,) = site.client.get("/v1/events").json()
    assert (event["kind"], event["datastream"]) == ("command", "orders")
    assert event["sentence"].startswith("me ")
    assert event["sentence"].endswith("ticket 7")
    found = json.loads(done.out)
    assert {key: found[key] for key in DEFINITION} == DEFINITION
    assert found["metadata"]["note"] == "a=b"


def test_a_datastream_is_changed_in_every_field_and_back(site: Site, headrace: Headrace) -> None:
    assert headrace("datastream", "create", "orders", "--topics", "t", "--owner", "them").code == 0
    site.tick()
    before = site.client.get("/v1/datastreams/orders").json()
    assert (before["source"]["cluster"], before["destination"]["cluster"]) == ("source", "destination")
    fixed = ("--source", "--destination", "--rename", "--start", "--start-position")
    words = EVERYTHING.split()
    given = [
        word
        for number, word in enumerate(words)
        if word not in fixed and (number == 0 or words[number - 1] not in fixed)
    ]
    done = headrace("datastream", "update", "orders", *given, *OBJECTIVES, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    for key in ("owner", "guarantee", "policies", "quota", "limits", "objective", "objectives", "placement"):
        assert found[key] == DEFINITION[key]
    assert found["source"] == DEFINITION["source"]
    unset: list[str] = [one.flag for one in FIELDS if one.may_change and not one.required]
    options: list[str] = [text for flag in (*unset, "note") for text in ("--unset", flag)]
    done = headrace("datastream", "update", "orders", *options, "--owner", "them", "--topics", "t", "--json")
    assert done.code == 0, done.err
    after = json.loads(done.out)
    assert {key: after[key] for key in DEFINITION} == {key: before[key] for key in DEFINITION}
    assert after["metadata"] == before["metadata"]


def test_what_is_given_becomes_a_document_and_nothing_else() -> None:
    options: dict[str, Any] = {"topics": "a|b", "exclude": None, "max_tasks": 4, "objective_ms": 500}
    assert document_of({**options, "transform": [], "shared": False}, ["note=a=b", "k="]) == {
        "source": {"topics": "a|b"},
        "limits": {"max_tasks": 4},
        "objective": {"milliseconds": 500},
        "destination": {"shared": False},
        "metadata": {"note": "a=b", "k": ""},
    }


def test_what_is_taken_away_is_null() -> None:
    names = ["exclude", "max-tasks", "objective-ms", "bytes-per-second", "note"]
    assert patch_of({"min_tasks": 2}, [], names) == {
        "source": {"exclude": None},
        "limits": {"min_tasks": 2, "max_tasks": None},
        "objective": None,
        "quota": {"bytes_per_second": None},
        "metadata": {"note": None},
    }


@pytest.mark.parametrize(("pairs", "said"), [([], "no changes"), (["note"], "no value")])
def test_what_is_no_change_is_refused(pairs: list[str], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        patch_of({"topics": None}, pairs, [])


@pytest.mark.parametrize("option", ["--guarantee=never", "--min-tasks=0", "--path=fast", "--objective-ms=x"])
def test_a_value_that_cannot_be_is_wrong_use(option: str, site: Site, headrace: Headrace) -> None:
    assert headrace("datastream", "create", "orders", "--topics", "t", "--owner", "me", option).code == 2


def test_help_fits_and_cuts_no_name(headrace: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = headrace("datastream", "create", "--help").out
    assert len(shown.splitlines()) < 80
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    for one in FIELDS:
        assert (f"--{one.flag} " in shown) is not one.is_former


def test_a_former_name_is_an_option_still(site: Site, headrace: Headrace) -> None:
    create = ("datastream", "create", "orders", "--topics", "t", "--owner", "me", "--objective-ms", "500")
    assert headrace(*create).code == 0
    assert site.client.get("/v1/datastreams/orders").json()["objective"]["milliseconds"] == 500
    assert "objective-ms" not in headrace("datastream", "update", "--help").out
