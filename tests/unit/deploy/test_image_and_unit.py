"""deploy/Dockerfile, deploy/healthy.py and the systemd unit."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from deploy.healthy import main
from headrace.settings import StoreKind, load_settings
from tests.patience import PATIENCE_SECONDS

ROOT: Final = Path(__file__).parents[3]
IMAGE: Final = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
UNIT: Final = ROOT / "deploy/systemd/headrace.service"


def test_what_the_image_copies_is_there() -> None:
    final = IMAGE.rpartition("\nFROM ")[2]
    copied = re.findall(r"^COPY (?!--from)(\S+) ", final, re.MULTILINE)
    assert copied == ["deploy/healthy.py"]
    for name in (*copied, "requirements/service.txt"):
        assert (ROOT / name).is_file()


def test_the_image_runs_as_nobody_with_what_is_locked() -> None:
    final = IMAGE.rpartition("\nFROM ")[2]
    assert "\nUSER 10001:10001\n" in final
    assert "--require-hashes -r requirements/service.txt" in IMAGE
    for compiler in ("gcc", "make"):
        assert compiler not in final
    assert not re.search(r"(?i)password|secret|token", IMAGE)


COMPOSE: Final[Any] = yaml.safe_load((ROOT / "deploy/compose-headrace.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_container_runs_with_its_settings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    service = COMPOSE["services"][name]
    for key, value in service["environment"].items():
        monkeypatch.setenv(key, re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", value))
    settings = load_settings(None)
    settings.api.check_exposure()
    is_alone = service["profiles"] == ["one"]
    assert settings.store is (StoreKind.EMBEDDED if is_alone else StoreKind.KAFKA)
    assert int(service["stop_grace_period"].removesuffix("s")) > settings.mirror.worker.stop_deadline_seconds
    assert (ROOT / "deploy" / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    folder = re.findall(r"HEADRACE_MIRROR__STATE_DIRECTORY=(\S+)", IMAGE)
    assert service.get("volumes", []) == ([f"state:{folder[0]}"] if is_alone else [])
    assert f"--mode=0700 {folder[0]}\n" in IMAGE


def test_containers_of_one_service_differ_in_name_and_port() -> None:
    found = [one["environment"] for one in COMPOSE["services"].values() if one["profiles"] == ["several"]]
    for key in ("HEADRACE_MIRROR__INSTANCE_NAME", "HEADRACE_API__PORT"):
        assert len({one.get(key) for one in found}) == len(found)


def test_the_lock_of_the_image_is_part_of_that_of_everything() -> None:
    def pinned(name: str) -> set[str]:
        text = (ROOT / f"requirements/{name}.txt").read_text(encoding="utf-8")
        return set(re.findall(r"^([\w.-]+==\S+)", text, re.MULTILINE))

    assert pinned("run") < pinned("service") < pinned("all")
    assert any(one.startswith("ortools==") for one in pinned("service"))
    assert not any(one.startswith("pyspark==") for one in pinned("service"))


@contextmanager
def answering(status: int) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/v1/ready" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(("status", "code"), [(200, 0), (401, 0), (403, 0), (503, 1), (404, 1)])
def test_the_health_check_says_what_readiness_says(
    status: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(status) as port:
        monkeypatch.setenv("HEADRACE_API__PORT", str(port))
        assert main() == code


def test_nobody_who_listens_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(200) as port:
        pass
    monkeypatch.setenv("HEADRACE_API__PORT", str(port))
    assert main() == 1


def test_the_health_check_needs_nothing_but_python() -> None:
    words = [sys.executable, "-I", "-S", str(ROOT / "deploy/healthy.py")]
    done = subprocess.run(
        words, capture_output=True, check=False, timeout=PATIENCE_SECONDS, env={"HEADRACE_API__PORT": "1"}
    )
    assert (done.returncode, done.stderr) == (1, b"")


def test_the_unit_stops_as_the_service_wants_it() -> None:
    unit = ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(UNIT.read_text(encoding="utf-8"))
    service = unit["Service"]
    assert service["ExecStart"].split()[1:3] == ["serve", "--config"]
    assert (service["KillMode"], service["User"]) == ("mixed", "headrace")
    assert int(service["TimeoutStopSec"]) > 20
    assert (service["ProtectSystem"], service["NoNewPrivileges"]) == ("strict", "yes")


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """Without systemd only the sections are checked here, and some keys above."""
    analyze = shutil.which("systemd-analyze")
    text = UNIT.read_text(encoding="utf-8")
    if analyze is None:
        assert set(re.findall(r"^\[(\w+)\]$", text, re.MULTILINE)) == {"Unit", "Service", "Install"}
        return
    here = tmp_path / UNIT.name
    here.write_text(text.replace("/opt/headrace/bin/headrace", sys.executable), encoding="utf-8")
    done = subprocess.run(
        [analyze, "verify", str(here)], capture_output=True, check=False, text=True, timeout=PATIENCE_SECONDS
    )
    assert (done.returncode, done.stderr) == (0, "")
    here.write_text(
        here.read_text(encoding="utf-8").replace("KillMode=mixed", "KilMode=mixed"), encoding="utf-8"
    )
    done = subprocess.run(
        [analyze, "verify", str(here)], capture_output=True, check=False, text=True, timeout=PATIENCE_SECONDS
    )
    assert "KilMode" in done.stderr
