"""Test the files of the web pages: public, unmodified, correct content types; / redirects browsers only."""

from __future__ import annotations

import gzip
import re
from typing import Final

import pytest
from httpx import Client

from api.pages.routes import FOLDER, page_files
from tests.fakes.site import Site
from tests.unit.api.guarded import Guarded

HTML: Final = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
OWN_FILES: Final = sorted(name for name in page_files() if not name.startswith("vendor/"))


def test_a_browser_is_led_from_the_root_to_the_pages(client: Client) -> None:
    answer = client.get("/", headers=HTML)
    assert (answer.status_code, answer.headers["Location"]) == (307, "/ui/")
    assert client.get("/ui").headers["Location"] == "/ui/"
    page = client.get("/ui/", headers=HTML)
    assert (page.status_code, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")


@pytest.mark.parametrize("accept", ["application/json", "*/*", ""])
def test_programs_find_nothing_at_the_root(client: Client, accept: str) -> None:
    answer = client.get("/", headers={"Accept": accept})
    assert (answer.status_code, answer.json()["kind"]) == (404, "NotFound")
    assert client.post("/", json={}).status_code == 405


def test_the_pages_need_no_token_and_what_they_ask_does(guarded: Guarded) -> None:
    nobody = guarded.site.client
    for name in ("", *page_files()):
        assert nobody.get(f"/ui/{name}").status_code == 200
    assert nobody.get("/", headers=HTML).status_code == 307
    assert nobody.get("/v1/overview").status_code == 401
    assert nobody.get("/v1/caller").status_code == 401


def test_a_name_that_is_not_the_service_s_opens_no_page(guarded: Guarded) -> None:
    assert guarded.site.client.get("/ui/", headers={"Host": "evil.example"}).status_code == 403


def test_files_are_compressed_and_asked_for_again_only_when_they_change(client: Client) -> None:
    for name, file in page_files().items():
        plain = client.get(f"/ui/{name}", headers={"Accept-Encoding": "identity"})
        assert plain.content == file.content == (FOLDER / name).read_bytes()
        assert gzip.decompress(file.compressed) == file.content
        again = client.get(f"/ui/{name}", headers={"If-None-Match": plain.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert plain.headers["Cache-Control"] == "no-cache"
    assert client.get("/ui/", headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["nothing.js", "../files.py", "%2e%2e/files.py", "vendor/htm/LICENSE", "vendor/", "//etc/passwd", "ü"],
)
def test_nothing_else_is_served(client: Client, path: str) -> None:
    assert client.get(f"/ui/{path}").status_code == 404


def test_a_page_may_run_and_ask_nothing_from_elsewhere(client: Client) -> None:
    headers = client.get("/ui/").headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize("name", OWN_FILES)
def test_no_file_of_ours_names_another_host_or_has_code_in_markup(name: str) -> None:
    text = page_files()[name].content.decode()
    found = re.findall(r"https?://[^\s\"'`]+", text)
    assert set(found) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<script>|\sstyle=\"|innerHTML|dangerouslySetInnerHTML|\beval\(", text)


@pytest.mark.parametrize("name", [one for one in OWN_FILES if one.endswith((".js", ".html"))])
def test_every_file_that_is_named_is_there(name: str) -> None:
    text, folder = page_files()[name].content.decode(), FOLDER / name
    named = re.findall(r"(?:from |import\()\"(\.[^\"]+)\"", text)
    named += re.findall(r"(?:href|src)(?:=|: )\"((?:lib|pages|views|vendor|icon|style|app)[^\"]*)\"", text)
    for one in named:
        base = folder.parent if one.startswith(".") else FOLDER
        assert (base / one).resolve().relative_to(FOLDER).as_posix() in page_files(), one


def test_licences_lie_beside_what_others_wrote() -> None:
    notes = (FOLDER / "vendor" / "README.md").read_text()
    for package in (FOLDER / "vendor").iterdir():
        if package.is_dir():
            assert f"`{package.name}`" in notes
            assert any(one.name.startswith("LICENSE") for one in package.iterdir())


def test_brooklins_clients_find_what_they_found(site: Site) -> None:
    answer = site.client.get("/datastream", headers={"Accept": "application/json"})
    assert answer.status_code == 200
