"""The documentation site: it builds strictly and offline, and every link is valid."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from os.path import normpath
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest

from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.long

ROOT: Final = Path(__file__).parents[3]
OFFLINE: Final = """
import socket

def refuse(*_: object, **__: object) -> None:
    raise OSError("the site is built offline")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse

from mkdocs.__main__ import cli

cli()
"""


class Page(HTMLParser):
    """Links, loaded resources and anchors of a page of the site."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        if "id" in found:
            self.places.add(found["id"])
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        elif "src" in found or (tag == "link" and "href" in found):
            self.loads.add(found.get("src") or found["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-c", OFFLINE, "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """Return every page of the site by its file."""
    return {
        file: Page(file.read_text(encoding="utf-8"))
        for file in site.rglob("*.html")
        if file.name != "404.html"
    }


@pytest.fixture(scope="module")
def links(pages: dict[Path, Page]) -> dict[Path, list[tuple[str, Path, str]]]:
    """Return the links of every page within the site: as written, the file, the anchor."""
    return {file: list(targets(file, page)) for file, page in pages.items()}


def targets(file: Path, page: Page) -> Iterator[tuple[str, Path, str]]:
    for link in page.links:
        parts = urlsplit(link)
        if not parts.scheme and not parts.netloc:
            target = Path(normpath(file.parent / unquote(parts.path))) if parts.path else file
            yield link, target / "index.html" if target.is_dir() else target, unquote(parts.fragment)


def test_every_link_of_the_site_leads_to_a_page_and_to_a_place_in_it(
    pages: dict[Path, Page], links: dict[Path, list[tuple[str, Path, str]]]
) -> None:
    assert len(pages) > 40
    lost = [
        (file.parent.name, link)
        for file, found in links.items()
        for link, target, place in found
        if not target.exists() or (place and target in pages and place not in pages[target].places)
    ]
    assert lost == []


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Page]) -> None:
    foreign = {one for page in pages.values() for one in page.loads if urlsplit(one).netloc}
    assert foreign == set()


def test_every_page_can_be_reached_from_the_first(
    site: Path, links: dict[Path, list[tuple[str, Path, str]]]
) -> None:
    reached, waiting = set[Path](), [site / "index.html"]
    while waiting:
        file = waiting.pop()
        if file in links and file not in reached:
            reached.add(file)
            waiting += [target for _, target, _ in links[file]]
    assert {file.parent.name for file in links.keys() - reached} == set()
