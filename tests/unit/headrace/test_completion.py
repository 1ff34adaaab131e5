"""Test shell completion: commands, options, choices, and names of datastreams that are safe in a shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.fakes.site import Site
from tests.patience import PATIENCE_SECONDS
from tests.unit.headrace.conftest import Headrace, Serve, Shown


@pytest.fixture
def completed(headrace: Headrace, monkeypatch: pytest.MonkeyPatch) -> Headrace:
    """Return a function that completes the last of these words as a shell does."""

    def run(*words: str) -> Shown:
        monkeypatch.setenv("_HEADRACE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(("headrace", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        return headrace()

    return run


def test_commands_options_and_choices_are_completed(completed: Headrace) -> None:
    assert "datastream" in completed("data").out.split()
    assert "wait" in completed("datastream", "wa").out.split()
    assert "--max-tasks" in completed("datastream", "create", "--max").out.split()
    assert "exactly-once" in completed("datastream", "create", "--guarantee", "ex").out.split()
    assert "caught-up" in completed("datastream", "wait", "orders", "--for", "c").out.split()
    assert "yaml" in completed("datastream", "get", "-o", "").out.split()


@pytest.mark.parametrize("command", ["datastream get", "datastream lag", "rebalance", "audit"])
def test_names_of_datastreams_are_completed(command: str, site: Site, completed: Headrace) -> None:
    for name in ("orders", "order-lines", "clicks"):
        site.create(name, destination={"cluster": "destination", "name": f"{name}.*"})
    assert completed(*command.split(), "ord").out.split() == ["order-lines", "orders"]
    assert completed(*command.split(), "--at", "127.0.0.1:1", "cl").out.split() == ["clicks"]


def test_no_name_is_offered_that_a_shell_would_run(completed: Headrace, serve: Serve) -> None:
    names = ["$(reboot)", "a;reboot", "`reboot`", "a b", "a\nb", "-rf", "a\x1b[2J", "a|b", "good"]
    serve(httpx.MockTransport(lambda _: httpx.Response(200, json=[{"name": name} for name in names])))
    shown = completed("datastream", "get", "")
    assert (shown.out.split(), shown.err) == (["good"], "")


def away(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("gone")


@pytest.mark.parametrize(
    "answer", [away, lambda _: httpx.Response(500, text="oops"), lambda _: httpx.Response(200, text="<html>")]
)
def test_without_a_service_there_is_silence(
    answer: object, completed: Headrace, serve: Serve, tmp_path: Path
) -> None:
    serve(httpx.MockTransport(answer))  # type: ignore[arg-type]
    shown = completed("datastream", "get", "o")
    assert (shown.out.strip(), shown.err) == ("", "")
    (tmp_path / "headrace.toml").write_text("wrong = [")
    shown = completed("datastream", "get", "o")
    assert (shown.out.strip(), shown.err) == ("", "")


def test_a_shell_completes_the_installed_command() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.fail("bash is missing")
    folder = Path(sys.executable).parent
    script = (
        'eval "$(_HEADRACE_COMPLETE=source_bash headrace)"\n'
        "complete -p headrace\n"
        "COMP_WORDS=(headrace datastream wa) COMP_CWORD=2\n"
        "_headrace_completion headrace\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        [bash, "-c", script],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == ["wait"], done.stderr
    assert "_headrace_completion headrace" in done.stdout
