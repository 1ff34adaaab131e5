"""Test `headrace slo export` and `import`: objectives as OpenSLO documents, in both directions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace

TWO = ("--slo", "p99 within 2 s over 60 s, 99.5 % over 30 d", "--slo", "p50 within 200 ms, 99 %")


def objectives_of(site: Site, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = site.client.get(f"/v1/datastreams/{name}").json()["objectives"]
    return found


def create(headrace: Headrace, name: str, *options: str) -> None:
    done = headrace(
        "datastream", "create", name, "--topics", "t", "--owner", "me", "--rename", f"{name}.*", *options
    )
    assert done.code == 0, done.err


def test_what_is_exported_can_be_imported(site: Site, headrace: Headrace, tmp_path: Path) -> None:
    create(headrace, "orders", *TWO)
    create(headrace, "plain")
    site.tick()
    before = objectives_of(site, "orders")
    shown = headrace("slo", "export")
    assert (shown.code, shown.out.count("kind: SLO")) == (0, 2)
    assert headrace("slo", "export", "orders").out == shown.out
    file = tmp_path / "slo.yaml"
    file.write_text(shown.out)
    assert "orders: no changes" in headrace("slo", "import", str(file)).out
    headrace("datastream", "update", "orders", "--unset", "slo")
    assert objectives_of(site, "orders") == []
    tried = headrace("slo", "import", str(file), "--dry-run")
    assert (tried.code, objectives_of(site, "orders")) == (0, [])
    assert "2 objectives" in tried.out
    done = headrace("slo", "import", str(file), "--reason", "ticket 7", "--by", "me")
    assert (done.code, done.err) == (0, "")
    assert objectives_of(site, "orders") == before
    assert objectives_of(site, "plain") == []


def test_nothing_is_changed_where_a_document_is_not_understood(
    site: Site, headrace: Headrace, tmp_path: Path
) -> None:
    create(headrace, "orders", *TWO)
    site.tick()
    documents = json.loads(headrace("slo", "export", "--json").out)
    documents[1]["spec"]["budgetingMethod"] = "Timeslices"
    file = tmp_path / "slo.json"
    file.write_text(json.dumps(documents))
    headrace("datastream", "update", "orders", "--unset", "slo")
    done = headrace("slo", "import", str(file))
    assert done.code != 0
    assert "document 2" in done.err
    assert "/spec/budgetingMethod" in done.err
    assert objectives_of(site, "orders") == []


def test_a_datastream_that_is_not_there_keeps_nobody_from_the_others(
    site: Site, headrace: Headrace, tmp_path: Path
) -> None:
    create(headrace, "orders", *TWO)
    site.tick()
    text = headrace("slo", "export").out
    file = tmp_path / "slo.yaml"
    file.write_text(f"{text.replace('datastream: orders', 'datastream: nobody')}{text}")
    headrace("datastream", "update", "orders", "--unset", "slo")
    done = headrace("slo", "import", str(file))
    assert done.code == 1
    assert "objectives of nobody" in done.err
    assert len(objectives_of(site, "orders")) == 2
