"""Credentials in the settings of librdkafka."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from librdkafka.settings import client_settings
from mirror.adapters.settings import KafkaCluster, KafkaSecurity
from mirror.errors import NotAuthorized


def settings_of(**security: Any) -> dict[str, Any]:
    guarded = KafkaSecurity.model_validate({"protocol": "SASL_SSL", **security})
    return client_settings(KafkaCluster(bootstrap_servers="a:1", security=guarded), "tests")


def test_tokens_are_given_with_their_end(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("opaque")
    token, expiry = settings_of(mechanism="OAUTHBEARER", token_file=str(file))["oauth_cb"]("")
    assert token == "opaque"
    assert 0 < expiry - time.time() <= 60


def test_kerberos_that_the_library_lacks_is_said_before_a_client_is_made() -> None:
    with pytest.raises(NotAuthorized, match="Kerberos") as caught:
        settings_of(mechanism="GSSAPI")
    assert "headrace serve" in caught.value.advice


@pytest.mark.parametrize(
    "security", [{"mechanism": "OAUTHBEARER"}, {"mechanism": "PLAIN", "token_file": "file"}]
)
def test_a_token_file_belongs_to_its_mechanism(security: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="token_file"):
        settings_of(**security)


def test_a_missing_token_file_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(NotAuthorized, match="no-token"):
        settings_of(mechanism="OAUTHBEARER", token_file=str(tmp_path / "no-token"))
