"""Test the settings of alerts, and the values that are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import SecretStr, ValidationError

from headrace.oncall.alerts import build_alerts, watched_silences
from headrace.settings import load_settings
from monitor.alerts.alert_metrics import AlertMetrics
from monitor.alerts.settings import AlertmanagerSettings, AlertSettings, without_secrets
from monitor.alerts.silence import Silence

MAIL: Final = {"host": "h", "sender": "a@x", "recipients": ["b@x"]}


def settings(**values: Any) -> AlertSettings:
    return AlertSettings.model_validate(values)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"labels": {"a-b": "x"}}, "label name"),
        ({"group_by": ["a b"]}, "label name"),
        ({"labels": {"severity": "x"}}, "severity"),
        ({"alertmanagers": {"a": {"url": "http://x", "username": "u"}}}, "password_file"),
        (
            {"alertmanagers": {"a": {"url": "u", "token_file": "f", "token_variable": "V"}}},
            "exclusive",
        ),
        (
            {"alertmanagers": {"a": {"url": "u", "token_file": "f", "username": "n", "password_file": "p"}}},
            "exclusive",
        ),
        ({"alertmanagers": {"a": {"url": "http://x", "password": "p"}}}, "Extra inputs"),
        ({"webhooks": {"a": {}}}, "url_variable"),
        ({"webhooks": {"a": {"url": "u", "url_file": "f"}}}, "url_variable"),
        ({"webhooks": {"a": {"url": "u", "secret_file": "f", "secret_variable": "V"}}}, "exclusive"),
        ({"mail": {"a": MAIL | {"recipients": []}}}, "at least 1"),
        ({"mail": {"a": MAIL | {"recipients": ["b@x\r\nBcc: c@x"]}}}, "mail address"),
        ({"mail": {"a": MAIL | {"sender": "me <a@x>"}}}, "mail address"),
        ({"mail": {"a": MAIL | {"sender": "a@x,b@x"}}}, "mail address"),
        ({"mail": {"a": MAIL | {"username": "u"}}}, "password_file"),
        (
            {"mail": {"a": MAIL | {"username": "u", "password_file": "p", "security": "none"}}},
            "encryption",
        ),
        ({"silences": {"a": {"until": "2027-01-31T18:00:00"}}}, "timezone"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        settings(**values)


def test_a_configuration_with_receivers_of_all_kinds_is_built(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text(
        '[monitor.alerts.alertmanagers.a]\nurl = "http://127.0.0.1:1"\n'
        '[monitor.alerts.webhooks.a]\nurl = "http://127.0.0.1:1"\n'
        '[monitor.alerts.mail.a]\nhost = "h"\nsender = "a@x"\nrecipients = ["b@x"]\n'
    )
    metrics = AlertMetrics()
    dispatch = build_alerts(load_settings(file), file, "", metrics)
    dispatch.stop(0.0)
    samples = [one for family in metrics.registry.collect() for one in family.samples]
    watched = {one.labels["receiver"] for one in samples if one.name == "headrace_alerts_waiting"}
    assert watched == {"alertmanager/a", "webhook/a", "mail/a"}


def test_silences_are_read_again_when_the_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text("")
    silences = watched_silences(file, [])
    assert silences() == []
    file.write_text('[monitor.alerts.silences."o*"]\nuntil = 2027-01-31T18:00:00Z\nreason = "ticket 7"\n')
    found = [Silence("o*", 1_801_418_400_000, "ticket 7")]
    assert silences() == found
    file.write_text("[monitor.alerts\n")
    assert silences() == found
    file.unlink()
    assert silences() == found
    file.write_text("[monitor]\n")
    assert silences() == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example.com/services/T0/correct-horse", "https://hooks.example.com/**********"),
        ("https://hooks.example.com:8443?token=correct-horse", "https://hooks.example.com:8443/**********"),
        ("https://user:correct-horse@[::1]:9093", "https://[::1]:9093/**********"),
        ("https://alerts.example.com:9093/", "https://alerts.example.com:9093"),
        ("correct-horse", "**********"),
        ("https://[correct-horse", "**********"),
        ("https://host:correct-horse", "**********"),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert without_secrets(SecretStr(url)) == shown
    assert "correct-horse" not in repr(AlertmanagerSettings(url=SecretStr(url)))
