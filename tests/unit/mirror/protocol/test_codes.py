"""Test the errors made from the codes of brokers."""

from __future__ import annotations

import pytest

from mirror.protocol.codes import MISSING, TRANSIENT, Code, error_of


@pytest.mark.parametrize("code", sorted(TRANSIENT - MISSING), ids=lambda code: Code(code).name)
def test_a_transient_code_may_be_asked_again(code: int) -> None:
    assert error_of(code, "doing it").retriable
