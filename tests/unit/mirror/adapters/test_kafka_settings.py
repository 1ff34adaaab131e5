"""Settings of the security of a cluster that fit together."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from mirror.adapters.settings import KafkaSecurity


@pytest.mark.parametrize(
    "security", [{"mechanism": "OAUTHBEARER"}, {"mechanism": "PLAIN", "token_file": "file"}]
)
def test_a_token_file_belongs_to_its_mechanism(security: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="token_file"):
        KafkaSecurity.model_validate({"protocol": "SASL_SSL", **security})
