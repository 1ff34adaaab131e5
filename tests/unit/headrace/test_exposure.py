"""Test the addresses on which `headrace serve` refuses to listen, and its reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from api.access.listener_settings import BrooklinListenerSettings
from api.access.origins import is_loopback
from api.settings import ApiSettings
from headrace.process.access import access_of_settings
from mirror.errors import ConfigError, NotAuthenticated, Unreachable
from mirror.instance.health import Health
from tests.fakes.clock import ManualClock

TLS = {"certificate_file": "a.pem", "key_file": "a.pem"}
TOKENS = {"token_file": "tokens"}


OIDC = {"issuer": "https://id", "audience": "a", "keys_url": "https://id/keys", "groups": {"g": {}}}


@pytest.mark.parametrize(
    "wrong",
    [
        {"audience": ""},
        {"groups": {}},
        {"keys_url": ""},
        {"keys_file": "keys"},
        {"keys_url": "http://id.example/keys"},
        {"keys_url": "http://localhost/keys"},
        {"keys_url": "http://127.0.0.1:80@id.example/keys"},
        {"keys_url": "http://127.0.0.1.id.example/keys"},
        {"keys_url": "https:///keys"},
        {"keys_url": "http://["},
        {"keys_url": "file:///keys"},
        {"leeway_seconds": 301},
        {"groups": {"g": {"role": "owner"}}},
        {"name_prefix": ""},
    ],
    ids=str,
)
def test_a_provider_is_asked_for_where_nobody_else_answers(wrong: dict[str, Any]) -> None:
    for url in ("https://id/keys", "http://127.0.0.1:1/keys", "http://[::1]/keys"):
        assert ApiSettings(access={"oidc": {**OIDC, "keys_url": url}}).requires_authentication
    with pytest.raises(ValueError, match="oidc"):
        ApiSettings(access={"oidc": {**OIDC, **wrong}})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_on_loopback_nothing_is_asked(host: str) -> None:
    settings = ApiSettings(host=host)
    settings.check_exposure()
    assert settings.exposure() == ""


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "10.0.0.1", "headrace.example", "localhost.example", "::ffff:10.0.0.1"]
)
@pytest.mark.parametrize("more", [{}, {"tls": TLS}, {"access": TOKENS}])
def test_elsewhere_it_needs_tls_and_authentication(host: str, more: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^api\.host") as refused:
        ApiSettings(host=host, **more).check_exposure()
    assert ("api.tls" in str(refused.value)) == ("tls" not in more)
    assert ("api.access" in str(refused.value)) == ("access" not in more)
    told = ApiSettings(host=host, insecure=True, **more)
    told.check_exposure()
    assert told.exposure().startswith("INSECURE")
    assert ("TLS" in told.exposure(), "authentication" in told.exposure()) == (
        "tls" not in more,
        "access" not in more,
    )
    whole = ApiSettings(host=host, tls=TLS, access=TOKENS)
    whole.check_exposure()
    assert whole.exposure() == ""


def test_brooklins_listener_elsewhere_is_said_to_be_meant() -> None:
    listener = BrooklinListenerSettings(host="0.0.0.0", port=1)
    with pytest.raises(ConfigError, match=r"^api\.brooklin\.host.*\bviewer\b"):
        ApiSettings(brooklin=listener).check_exposure()
    meant = ApiSettings(brooklin=listener.model_copy(update={"insecure": True}))
    meant.check_exposure()
    assert "INSECURE" in meant.exposure()


def test_a_name_is_not_loopback_because_it_begins_so() -> None:
    assert not is_loopback("127.0.0.1.example")


@pytest.mark.parametrize(
    ("access", "says"),
    [
        ({"token_file": "none"}, "tokens in none"),
        ({"certificates": {"a": {"subject": "CN=a"}}}, "client_ca_file"),
        ({"certificates": {"a": {"subject": "CN=a"}, "b": {"subject": "CN=a"}}}, "subject"),
        ({"certificates": {"a\n": {"subject": "CN=a"}}}, "printable"),
    ],
)
def test_what_nobody_could_be_known_by_is_found_at_the_start(access: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        access_of_settings(ApiSettings(access=access), "127.0.0.1:1", ManualClock(), Health())


@pytest.mark.parametrize(
    "access",
    [
        {"certificates": {"a": {"subject": "CN=a", "role": "owner"}}},
        {"certificates": {"a": {"subject": "CN=a", "role": "viewer", "owners": ["x"]}}},
        {"certificates": {"a": {"subject": ""}}},
        {"open_to_all": ["everything"]},
    ],
)
def test_what_no_principal_can_be_is_no_setting(access: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"owners|subject|open_to_all"):
        ApiSettings(access=access)


def test_it_is_known_by_the_names_that_it_has(tmp_path: Path) -> None:
    (tmp_path / "tokens").touch(0o600)
    settings = ApiSettings(
        host="headrace.example",
        advertised_address="Node-1.Example:80",
        access={"token_file": str(tmp_path / "tokens"), "allowed_hosts": ["alias"]},
    )
    access = access_of_settings(settings, "https://Node-1.Example:80", ManualClock(), Health())
    assert access.hosts >= {"headrace.example", "node-1.example", "alias"}
    assert access.is_asked


def test_health_and_the_log_say_where_no_token_is_taken_any_more(tmp_path: Path) -> None:
    file, health = tmp_path / "tokens", Health()
    file.touch(0o600)
    access = access_of_settings(ApiSettings(access={"token_file": str(file)}), "", ManualClock(), health)
    assert access.tokens is not None
    file.chmod(0o666)
    with capture_logs() as lines:
        for _ in range(3):
            with pytest.raises(Unreachable):
                access.tokens.principal_of("hr_")
    assert [str(file) in one["reason"] for one in lines] == [True]
    shown = health.conditions()["tokens"]
    assert (shown.is_well, "TOKENS" in shown.sentence) == (True, True)
    assert str(file) not in shown.sentence
    file.chmod(0o600)
    with pytest.raises(NotAuthenticated):
        access.tokens.principal_of("hr_")
    assert "tokens" not in health.conditions()
