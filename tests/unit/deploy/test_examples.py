"""deploy/examples: `headrace config check` accepts the files, with the secrets in the environment."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from headrace.__main__ import app
from mirror.errors import ConfigError
from tests.certificates import Authority

FILES: Final = sorted((Path(__file__).parents[3] / "deploy/examples").glob("*.toml"))
WITH_PASSWORDS: Final = {"scram", "confluent-cloud", "redpanda", "event-hubs"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that replaces /etc/headrace and /run/headrace."""
    return tmp_path_factory.mktemp("headrace")


def with_files(example: Path, folder: Path) -> Path:
    """Return a copy of an example whose files exist: each contains the same certificate and its key."""
    text = re.sub(r"/(etc|run)/headrace", str(folder), example.read_text(encoding="utf-8"))
    content = Authority(folder).certificate("headrace", 10).read_bytes()
    for name in re.findall(r'^\w+_file = "(.+)"', text, re.MULTILINE):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content)
    copy = folder / example.name
    copy.write_text(text, encoding="utf-8")
    return copy


def checked(file: Path) -> Any:
    done = CliRunner().invoke(
        app, ["config", "check", "--config", str(file), "--json"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def secrets_of(file: Path) -> list[str]:
    """Return the variables named in its comment, except for passwords of unencrypted keys."""
    text = re.sub(r"if it has one, is \w+", "", file.read_text(encoding="utf-8"))
    return re.findall(r"HEADRACE_\w+__PASSWORD", text)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_right(file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in secrets_of(file):
        monkeypatch.setenv(name, "secret-of-the-test")
    found = checked(with_files(file, folder))
    assert set(found["clusters"]) == {"source", "destination"}
    assert "secret-of-the-test" not in json.dumps(found)
    assert "password =" not in file.read_text(encoding="utf-8")


def test_there_is_one_for_each_way_in() -> None:
    assert {file.stem for file in FILES} == {
        *WITH_PASSWORDS,
        "tls",
        "oauthbearer",
        "msk-iam",
        "production",
        "one-instance",
        "store-on-kafka",
    }
    assert {file.stem for file in FILES if secrets_of(file)} == WITH_PASSWORDS


@pytest.mark.parametrize(
    "file", [one for one in FILES if one.stem in WITH_PASSWORDS], ids=lambda file: file.stem
)
def test_without_its_password_an_example_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError):
        checked(file)


def test_a_key_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "headrace.toml"
    text = next(one for one in FILES if one.stem == "tls").read_text(encoding="utf-8")
    wrong.write_text(text.replace("ca_file", "ca_fil"), encoding="utf-8")
    with pytest.raises(ConfigError):
        checked(wrong)
