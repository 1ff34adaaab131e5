"""Test `headrace config check`, `config show` and `config example`."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from headrace.reference.example import example_settings
from headrace.reference.sections import sections
from headrace.settings import load_settings
from tests.certificates import Authority
from tests.unit.headrace.conftest import Headrace, Write

SECRET = "correct horse"


def with_keys_set(text: str) -> str:
    """Return the example with every key set to the default shown, except for tables with a free name and keys
    whose default is shown as an empty string."""
    tables = re.split(r"^(?=#\[)", text, flags=re.MULTILINE)
    kept = [one for one in tables if "NAME" not in one.partition("\n")[0]]
    lines = [line for one in kept for line in one.splitlines() if not line.endswith('= ""')]
    return "\n".join(line[1:] if re.match(r"#(\[|\w+ = )", line) else line for line in lines)


def test_the_example_is_right_as_it_is_and_sets_the_clusters_only(write: Write) -> None:
    file = write(example_settings())
    assert set(tomllib.loads(file.read_text())) == {"clusters"}
    assert load_settings(file) == load_settings()


def test_every_key_of_the_example_may_be_set_to_what_it_shows(write: Write) -> None:
    text = with_keys_set(example_settings())
    assert set(tomllib.loads(text)) > {"mirror", "monitor", "pinot", "api"}
    assert load_settings(write(text)) == load_settings()


def test_the_example_has_every_key() -> None:
    text = example_settings()
    for section in sections():
        assert not section.keys or f"#[{section.path}]" in text
        for key in section.keys:
            assert f"\n#{key} = " in text


def test_each_setting_says_where_it_comes_from(
    headrace: Headrace, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(
        '[clusters.a]\nbootstrap_servers = "h:1"\n[api]\nport = 8081\n'
        f'[pinot]\nusername = "u"\npassword = "{SECRET}"\n'
    )
    monkeypatch.setenv("HEADRACE_API__PORT", "8082")
    shown = headrace("config", "show", "--config", str(file), "--json")
    found = {one["key"]: (one["value"], one["origin"]) for one in json.loads(shown.out)}
    assert found["api.port"] == (8082, "environment")
    assert found["clusters.a.bootstrap_servers"] == ("h:1", "file")
    assert found["zookeeper.root"] == ("/headrace", "default")
    assert SECRET not in shown.out
    changed = headrace("config", "show", "--changed", "--config", str(file))
    assert "zookeeper.root" not in changed.out
    assert re.search(r"^api\.port +8082 +environment$", changed.out, re.MULTILINE)


@pytest.mark.parametrize("command", [("config", "show"), ("config", "check", "--json")])
def test_an_address_of_a_receiver_is_shown_without_its_secrets(
    headrace: Headrace, write: Write, command: tuple[str, ...]
) -> None:
    file = write(
        '[monitor.alerts.webhooks.chat]\nurl = "https://hooks.example.com/services/T0/correct-horse"\n'
        '[monitor.alerts.alertmanagers.one]\nurl = "https://user:correct-horse@alerts.example.com:9093"\n'
    )
    answer = headrace(*command, "--config", str(file))
    assert answer.code == 0
    assert "correct-horse" not in answer.out + answer.err
    assert "https://hooks.example.com/" in answer.out
    assert "https://alerts.example.com:9093/" in answer.out


def test_a_file_that_is_wrong_is_not_shown(headrace: Headrace, write: Write) -> None:
    answer = headrace("config", "show", "--config", str(write("[api]\nprot = 1")))
    assert (answer.code, answer.out) == (2, "")
    assert "api.prot" in answer.err


def test_the_example_is_printed(headrace: Headrace) -> None:
    assert headrace("config", "example").out.rstrip() == example_settings().rstrip()


FILES = """
[clusters.east]
bootstrap_servers = "h:1"
[clusters.east.security]
protocol = "SASL_SSL"
mechanism = "OAUTHBEARER"
token_file = "east.token"
ca_file = "east-ca.pem"
certificate_file = "ours.pem"
key_file = "ours-key.pem"
[zookeeper.security]
tls = true
ca_file = "zookeeper-ca.pem"
[api.tls]
certificate_file = "rest.pem"
key_file = "rest-key.pem"
instances_ca_file = "instances-ca.pem"
[api.access]
token_file = "tokens"
[api.access.oidc]
keys_file = "keys.json"
[commands]
audit_key_file = "audit.pem"
[monitor.alerts.webhooks.chat]
url_file = "chat-url"
"""
EVERY_FILE = re.findall(r'_file = "(.+)"', FILES)


def test_each_file_that_does_not_exist_is_named(headrace: Headrace, write: Write) -> None:
    file = write(FILES)
    answer = headrace("config", "check", "--config", str(file))
    assert (answer.code, answer.out) == (2, "")
    assert "12 settings are invalid" in answer.err
    for key, name in re.findall(r'^(\w+_file) = "(.+)"', FILES, re.MULTILINE):
        assert f"{key}: cannot read {name}: No such file or directory" in answer.err
    assert "clusters.east.security.ca_file: " in answer.err
    assert "monitor.alerts.webhooks.chat.url_file: " in answer.err
    assert headrace("config", "show", "--config", str(file)).code == 0


def test_files_that_exist_are_accepted(headrace: Headrace, write: Write, tmp_path: Path) -> None:
    content = Authority(tmp_path).certificate("ours", 10).read_bytes()
    for name in EVERY_FILE:
        (tmp_path / name).write_bytes(content)
    assert headrace("config", "check", "--config", str(write(FILES))).code == 0


def test_a_file_with_other_content_is_named(headrace: Headrace, write: Write, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    content = authority.certificate("ours", 10).read_bytes()
    for name in EVERY_FILE:
        (tmp_path / name).write_bytes(content)
    (tmp_path / "rest-key.pem").write_bytes(authority.certificate("another", 10).read_bytes())
    (tmp_path / "zookeeper-ca.pem").write_text("no certificate")
    (tmp_path / "tokens").unlink()
    (tmp_path / "tokens").mkdir()
    answer = headrace("config", "check", "--config", str(write(FILES)))
    assert answer.code == 2
    assert "3 settings are invalid" in answer.err
    for key in ("zookeeper.security.ca_file", "api.tls.certificate_file", "api.access.token_file"):
        assert f"{key}: cannot read " in answer.err
