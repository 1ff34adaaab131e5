"""Test that the quick reader of the few settings that commands need agrees with the full settings."""

from __future__ import annotations

import pytest

from headrace.console.access.quick import quick_access
from headrace.settings import load_settings
from mirror.errors import HeadraceError
from tests.unit.headrace.conftest import Write

FILES = {
    "nothing": "",
    "a port": "[api]\nport = 4000\nhost = '::1'",
    "TLS of the service": "[api.tls]\ncertificate_file = 'c'\nkey_file = 'k'",
    "an authority": "[commands]\nca_file = 'a'\ntoken_file = 't'",
    "several instances": "[commands]\naddresses = ['a:1', 'https://b:2']",
}
WRONG = {
    "a port": "[api]\nport = 'x'",
    "a port that is none": "[api]\nport = 70000",
    "a section": "api = 3",
    "a key": "[commands]\nnothing = 1",
    "a key alone": "[commands]\nkey_file = 'k'",
    "a list": "[commands]\naddresses = ['a:1,b:2']",
    "a number": "[commands]\naddresses = [3]",
}


@pytest.mark.parametrize("offset", ["", "100"])
@pytest.mark.parametrize("at", ["", "x:1,y:2", "https://x:1"])
@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_quick_settings_are_those_of_all(
    text: str, at: str, offset: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_PORT_OFFSET", offset)
    file = write(text)
    found, settings = quick_access(file, at), load_settings(file)
    assert found is not None
    assert found.addresses == settings.service_address(at)
    for name in ("ca_file", "certificate_file", "key_file", "token_file"):
        assert getattr(found.caller, name) == getattr(settings.commands, name)


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_left_to_the_whole_settings(text: str, write: Write) -> None:
    file = write(text)
    assert quick_access(file, "") is None
    with pytest.raises(HeadraceError):
        load_settings(file)


def test_variables_that_set_keys_are_left_to_the_whole_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_API__PORT", "4000")
    assert quick_access(None, "") is None
