"""Test passwords of clusters, read from environment variables named after the alias, and from files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.clusters.alias_collisions import alias_collisions
from headrace.settings import HeadraceSettings, load_settings
from mirror.errors import ConfigError

SECURED = """
[clusters."{alias}"]
bootstrap_servers = "a:1"
security = {{ protocol = "SASL_PLAINTEXT", mechanism = "PLAIN", username = "me"{more} }}
"""


def settings_of(folder: Path, *aliases: str, more: str = "") -> HeadraceSettings:
    path = folder / "headrace.toml"
    path.write_text("".join(SECURED.format(alias=alias, more=more) for alias in aliases))
    return load_settings(path)


def password_of(settings: HeadraceSettings, alias: str) -> str:
    return settings.clusters[alias].security.password.get_secret_value()


@pytest.mark.parametrize("alias", ["us-east-1", "US_East_1", "us.east.1", "us_east_1", "Us-East.1"])
def test_an_alias_is_found_by_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alias: str
) -> None:
    monkeypatch.setenv("HEADRACE_CLUSTERS__US_EAST_1__SECURITY__PASSWORD", "secret")
    settings = settings_of(tmp_path, alias)
    assert settings.clusters.keys() == {alias}
    assert password_of(settings, alias) == "secret"


def test_a_variable_that_two_aliases_match_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CLUSTERS__US_EAST__SECURITY__PASSWORD", "secret")
    with pytest.raises(ConfigError) as refused:
        settings_of(tmp_path, "us-east", "US_East")
    assert {"'US_East'", "'us-east'"} <= set(re.findall(r"'[^']*'", str(refused.value)))


def test_aliases_of_one_variable_are_named_before_one_is_set(tmp_path: Path) -> None:
    password = ', password = "x"'
    colliding = settings_of(tmp_path, "us-east", "US_East", "eu", more=password)
    (warning,) = alias_collisions(colliding)
    assert {"'US_East'", "'us-east'"} <= set(re.findall(r"'[^']*'", warning))
    assert "US_EAST" in warning
    assert list(alias_collisions(settings_of(tmp_path, "us-east", "us-west", more=password))) == []


def test_a_password_comes_from_a_file(tmp_path: Path) -> None:
    place = tmp_path / "password"
    place.write_text("secret \n")
    settings = settings_of(tmp_path, "us-east", more=f', password_file = "{place}"')
    assert password_of(settings, "us-east") == "secret "


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff"])
def test_a_password_file_that_gives_none_is_refused(tmp_path: Path, content: bytes | None) -> None:
    place = tmp_path / "password"
    if content is not None:
        place.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        settings_of(tmp_path, "us-east", more=f', password_file = "{place}"')
    assert str(place) in str(refused.value)


def test_a_password_and_a_file_exclude_each_other(tmp_path: Path) -> None:
    place = tmp_path / "password"
    place.write_text("secret")
    with pytest.raises(ConfigError):
        settings_of(tmp_path, "us-east", more=f', password = "x", password_file = "{place}"')
