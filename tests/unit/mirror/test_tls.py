"""Test the reload of TLS contexts: files that are replaced, half written, missing, or encrypted."""

from __future__ import annotations

import os
import pty
import select
import shutil
import ssl
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from mirror.adapters.settings import ZooKeeperSecurity
from mirror.adapters.zookeeper_access import tls_context as zookeeper_context
from mirror.client.access import TlsFiles, tls_context
from mirror.errors import ConfigError
from mirror.tls import ReloadingContext, trusting
from tests.patience import PATIENCE_SECONDS

FILES: Final = Path(__file__).parents[2] / "data/tls"
REST: Final = FILES / "rest"


def handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> dict[str, Any]:
    """Complete a handshake in memory and return the client's certificate as received by the server, or {}."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [ours, theirs]
    while waiting:
        for side in tuple(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
    return theirs.getpeercert() or {}


def listener(certificate: Path, authority: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if authority:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority)
    return context


def of_kafka(ca_file: Path) -> ReloadingContext:
    return tls_context(TlsFiles(ca_file=str(ca_file)))


def of_zookeeper(ca_file: Path) -> ReloadingContext:
    return zookeeper_context(ZooKeeperSecurity(tls=True, ca_file=str(ca_file)))


def of_a_receiver(ca_file: Path) -> ReloadingContext:
    return trusting(str(ca_file), "ca_file")


@pytest.mark.parametrize("make", [of_kafka, of_zookeeper, of_a_receiver])
def test_an_authority_that_is_replaced_counts_for_the_next_connection(make: Any, tmp_path: Path) -> None:
    ca_file = Path(shutil.copy(FILES / "other-ca.pem", tmp_path / "ca.pem"))
    context = make(ca_file)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, listener(FILES / "broker.pem"))
    shutil.copy(FILES / "ca.pem", ca_file)
    handshake(context, listener(FILES / "broker.pem"))


@pytest.mark.parametrize("make", [of_kafka, of_zookeeper, of_a_receiver])
def test_files_that_cannot_be_used_leave_the_former_ones_in_force(make: Any, tmp_path: Path) -> None:
    ca_file = Path(shutil.copy(FILES / "ca.pem", tmp_path / "ca.pem"))
    context = make(ca_file)
    for spoil in (
        lambda: ca_file.write_text("-----BEGIN CERTIFICATE-----\nhalf"),
        lambda: ca_file.write_text(""),
        ca_file.unlink,
    ):
        spoil()
        handshake(context, listener(FILES / "broker.pem"))
    shutil.copy(FILES / "other-ca.pem", ca_file)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, listener(FILES / "broker.pem"))


def test_a_certificate_of_ours_that_is_renewed_is_shown_once_its_key_fits(tmp_path: Path) -> None:
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    shutil.copy(REST / "client.pem", certificate)
    shutil.copy(REST / "client.pem", key)
    context = tls_context(TlsFiles(str(REST / "authority.pem"), str(certificate), str(key)))
    server = listener(REST / "server.pem", REST / "authority.pem")
    first = handshake(context, server)
    shutil.copy(REST / "misleading.pem", certificate)
    assert handshake(context, server) == first
    shutil.copy(REST / "misleading.pem", key)
    assert handshake(context, server)["subject"] != first["subject"]


@pytest.mark.parametrize("make", [of_kafka, of_zookeeper, of_a_receiver])
def test_files_that_cannot_be_used_at_first_are_an_error(make: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        make(tmp_path / "nowhere.pem")
    (tmp_path / "empty.pem").write_text("")
    with pytest.raises(ConfigError):
        make(tmp_path / "empty.pem")


ASKED_AT_A_TERMINAL: Final = f"""
import fcntl, termios
from mirror.client.access import TlsFiles, tls_context
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
tls_context(TlsFiles('', {str(FILES / "locked.pem")!r}, {str(FILES / "locked.pem")!r}))
"""


def test_a_locked_key_without_its_password_asks_nobody() -> None:
    """OpenSSL prompts at the terminal by default, and a service would wait forever."""
    locked = str(FILES / "locked.pem")
    assert tls_context(TlsFiles("", locked, locked, "secret"))
    ours, terminal = pty.openpty()
    command = [sys.executable, "-c", ASKED_AT_A_TERMINAL]
    with closing(os.fdopen(ours, "rb", buffering=0)) as reader:
        process = subprocess.Popen(
            command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
        )
        os.close(terminal)
        said = b""
        with suppress(OSError):  # the terminal is closed when the process has ended
            while b"pass phrase" not in said and select.select([reader], [], [], PATIENCE_SECONDS)[0]:
                said += reader.read(65_536)
        process.kill()
        process.wait()
    assert b"pass phrase" not in said
    assert b"ConfigError" in said
