"""Settings of pip apply to uv."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.scripts import FOLDER, module_of


@pytest.fixture
def uv_settings() -> ModuleType:
    return module_of(FOLDER / "uv_settings.py")


def test_the_environment_wins_over_files_and_a_command_over_all_commands(uv_settings: ModuleType) -> None:
    listing = """:env:.index-url='https://c/simple'
global.index-url='https://a/simple'
global.timeout='5'
install.index-url='https://b/simple'
install.timeout='60'
download.timeout='1'
"""
    assert uv_settings.read(listing) == {"index-url": "https://c/simple", "timeout": "60"}


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ({"index-url": "https://u:p@a/simple"}, {"UV_DEFAULT_INDEX": "https://u:p@a/simple"}),
        (
            {"extra-index-url": "\nhttps://a\nhttps://b"},
            {"UV_INDEX": "https://a https://b", "UV_INDEX_STRATEGY": "unsafe-best-match"},
        ),
        ({"find-links": "https://a/wheels /nowhere/at/all /"}, {"UV_FIND_LINKS": "https://a/wheels,/"}),
        ({"trusted-host": "a b:8080"}, {"UV_INSECURE_HOST": "a b:8080"}),
        ({"client-cert": "/me.pem"}, {"SSL_CLIENT_CERT": "/me.pem"}),
        (
            {"proxy": "me:pw@a:3128"},
            {"HTTPS_PROXY": "http://me:pw@a:3128", "HTTP_PROXY": "http://me:pw@a:3128"},
        ),
        ({"default-timeout": "180"}, {"UV_HTTP_TIMEOUT": "180"}),
        ({"timeout": "0.5", "retries": "0"}, {"UV_HTTP_TIMEOUT": "1", "UV_HTTP_RETRIES": "0"}),
        ({"no-cache-dir": "false"}, {"UV_NO_CACHE": "1"}),
        ({"keyring-provider": "subprocess"}, {"UV_KEYRING_PROVIDER": "subprocess"}),
        ({"keyring-provider": "auto", "quiet": "1"}, {}),
    ],
)
def test_each_has_its_word(
    uv_settings: ModuleType, options: dict[str, str], environment: dict[str, str]
) -> None:
    assert uv_settings.environment_of(options, {}) == {"UV_SYSTEM_CERTS": "1", **environment}


@pytest.mark.parametrize(
    ("options", "present", "environment"),
    [
        ({"cert": "/pip.pem"}, {"SSL_CERT_FILE": "/other.pem"}, {"SSL_CERT_FILE": "/pip.pem"}),
        ({}, {"REQUESTS_CA_BUNDLE": "/requests.pem"}, {"SSL_CERT_FILE": "/requests.pem"}),
        ({}, {"UV_SYSTEM_CERTS": "0"}, {}),
    ],
)
def test_it_trusts_what_pip_trusts(
    uv_settings: ModuleType, options: dict[str, str], present: dict[str, str], environment: dict[str, str]
) -> None:
    assert uv_settings.environment_of(options, present) == environment


def test_what_is_said_to_uv_itself_stays(uv_settings: ModuleType) -> None:
    present = {"UV_DEFAULT_INDEX": "https://mine/simple", "UV_SYSTEM_CERTS": "1"}
    assert uv_settings.environment_of({"index-url": "https://pip/simple"}, present) == {}


@pytest.mark.parametrize(("value", "arguments"), [("true", ["--no-index"]), ("1", ["--no-index"]), ("0", [])])
def test_no_registry_at_all(uv_settings: ModuleType, value: str, arguments: list[str]) -> None:
    assert uv_settings.arguments_of({"no-index": value}) == arguments
