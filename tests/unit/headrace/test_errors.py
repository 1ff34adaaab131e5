"""Test failures as shown on the terminal."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from headrace.errors import EXIT_FAILED, EXIT_USAGE, exit_code_of, explain, requirements_of
from mirror import errors
from stack.errors import StackError
from tests.patience import PATIENCE_SECONDS


def test_a_foreseen_failure_is_one_line_with_what_to_do() -> None:
    assert explain(errors.Unreachable("gone", advice="start it")) == "gone: start it"
    assert explain(errors.NotFound("no such thing")) == "no such thing"
    told = explain(StackError("a port is busy", advice="free it"))
    assert told is not None
    assert "a port is busy" in told


def test_a_bug_keeps_its_traceback() -> None:
    assert explain(ZeroDivisionError("oops")) is None
    assert explain(KeyError("oops")) is None
    assert explain(ModuleNotFoundError("typo", name="mirror.typo")) is None


@pytest.mark.parametrize(
    ("module", "extra"),
    [("pyspark.sql", "pmp"), ("ortools", "assigner"), ("pinotdb", "pinot"), ("matplotlib", "plots")],
)
def test_a_missing_extra_is_named_with_the_packages_that_it_stands_for(module: str, extra: str) -> None:
    told = explain(ModuleNotFoundError("missing", name=module))
    assert told is not None
    assert f"(the extra {extra})" in told
    command = told.partition("pip install ")[2]
    assert set(shlex.split(command)) == requirements_of(extra)
    assert module.partition(".")[0] in command


def test_an_extra_that_includes_others_asks_for_what_they_ask_for() -> None:
    assert requirements_of("monitor") == requirements_of("pinot")
    assert requirements_of("pinot") < requirements_of("pmp") < requirements_of("all")
    assert requirements_of("no-such-extra") == frozenset()


def test_a_file_that_fails_is_named() -> None:
    told = explain(PermissionError(13, "denied", "/some/file"))
    assert told == "/some/file: denied"
    assert explain(OSError("nameless")) is None


def test_exit_codes_tell_wrong_use_from_failure() -> None:
    assert exit_code_of(errors.ConfigError("x")) == EXIT_USAGE
    assert exit_code_of(errors.NotFound("x")) == EXIT_USAGE
    assert exit_code_of(errors.Unreachable("x")) == EXIT_FAILED


def test_the_command_ends_with_one_line_and_the_code() -> None:
    for arguments, code, said in (
        (
            ["datastream", "list", "--at", "127.0.0.1:1"],
            EXIT_FAILED,
            "127.0.0.1:1",
        ),
        (["config", "check", "--config", "nowhere.toml"], EXIT_USAGE, "nowhere.toml"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "headrace", *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        assert done.stdout == ""
