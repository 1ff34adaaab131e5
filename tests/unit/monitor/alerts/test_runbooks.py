"""Every alert has a page, and every page an alert."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from monitor.alerts import catalogue
from monitor.alerts.alert import Alert, AlertKind, Style
from monitor.alerts.catalogue import CATALOGUE

ROOT: Final = Path(__file__).parents[4]
PAGES: Final = ROOT / "docs/runbooks"
HEADINGS: Final = ["Meaning", "Automatic actions", "Diagnosis", "Mitigation"]


def test_the_catalogue_is_complete() -> None:
    kinds = {one for one in vars(catalogue).values() if isinstance(one, AlertKind)}
    assert kinds == set(CATALOGUE)
    assert len({one.name for one in CATALOGUE}) == len(CATALOGUE)


def test_there_is_a_page_for_each_and_no_other() -> None:
    assert {file.stem for file in PAGES.glob("*.md")} - {"index"} == {one.name for one in CATALOGUE}
    listed = re.findall(
        r"^\| \[(\w+)\]\(\1\.md\) \| (\w+) \|", (PAGES / "index.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(listed) == sorted((one.name, one.severity.value) for one in CATALOGUE)


@pytest.mark.parametrize("kind", CATALOGUE, ids=lambda kind: kind.name)
def test_a_page_answers_the_same_questions(kind: AlertKind) -> None:
    page = (PAGES / f"{kind.name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {kind.name}\n\nSeverity: {kind.severity.value}.")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == HEADINGS
    assert all(part.strip() for part in re.split(r"^## .*$", page, flags=re.MULTILINE))


@pytest.mark.parametrize("kind", CATALOGUE, ids=lambda kind: kind.name)
def test_the_runbook_link_of_an_alert_leads_to_its_page(kind: AlertKind) -> None:
    alert = Alert(kind, "x", "y", 0)
    assert (ROOT / Style({}, "", "").notice(alert).annotations["runbook_url"]).is_file()
    published = Style({}, "https://docs/runbooks/{alertname}/", "").notice(alert).annotations["runbook_url"]
    assert (PAGES / f"{Path(published).name}.md").is_file()
