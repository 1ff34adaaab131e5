"""Test the errors of SASL mechanisms that cannot be used."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import NoReturn

import pytest

from mirror.errors import ConfigError, NotAuthorized
from mirror.protocol.control.sasl import SaslAccess, SaslExchange


class NoTicket(Exception):
    """An error of the package gssapi, which derives from no standard class."""


def test_kerberos_without_a_ticket_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_ticket(*_: object, **__: object) -> NoReturn:
        raise NoTicket("unavailable")

    library = ModuleType("gssapi")
    library.__dict__.update(Name=no_ticket, NameType=SimpleNamespace(hostbased_service=1))
    monkeypatch.setitem(sys.modules, "gssapi", library)
    with pytest.raises(NotAuthorized, match=r"\bkafka@broker\.example: unavailable") as caught:
        SaslExchange(SaslAccess("GSSAPI"), "broker.example")
    assert "kinit" in caught.value.advice


def test_kerberos_without_its_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match="GSSAPI") as caught:
        SaslExchange(SaslAccess("GSSAPI"), "broker.example")
    assert "gssapi" in caught.value.advice


def test_an_unknown_mechanism_is_named() -> None:
    with pytest.raises(ConfigError, match="MAGIC"):
        SaslExchange(SaslAccess("MAGIC"), "broker.example")
