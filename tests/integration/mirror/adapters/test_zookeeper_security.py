"""A ZooKeeper with authentication: digest, SASL, TLS, and nodes restricted by ACLs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from kazoo.security import CREATOR_ALL_ACL

from headrace.process.open_nodes import PART, report_open_nodes
from mirror.adapters.settings import ZooKeeperSecurity, ZooKeeperSettings
from mirror.adapters.zookeeper import ZooKeeper
from mirror.adapters.zookeeper_survey import survey_servers
from mirror.coordination.stores import znodes
from mirror.coordination.stores.root import ensure_root
from mirror.errors import NewerFormat, NotAuthorized, Unreachable
from mirror.instance.health import Health
from stack.ports import free_ports
from stack.zookeeper import DEFAULT_JVM, ZooKeeperServer
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.servers, pytest.mark.deep]

TLS: Final = Path(__file__).parents[3] / "data/tls"
JAAS: Final = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
    user_mirror="right" user_other="theirs";
};
"""
DIGEST: Final = {"mechanism": "digest", "username": "mirror", "password": "right"}
SASL: Final = {"mechanism": "DIGEST-MD5", "username": "mirror", "password": "right"}
TRUSTING: Final = {"tls": True, "ca_file": str(TLS / "ca.pem")}
MUTUAL: Final = TRUSTING | {
    "certificate_file": str(TLS / "client-certificate.pem"),
    "key_file": str(TLS / "client-key.pem"),
}


class Guarded:
    """Server with a plain listener, and a TLS listener that requires client certificates."""

    def __init__(self, folder: Path) -> None:
        plain, secure = free_ports(2)
        jaas = folder / "jaas.conf"
        jaas.write_text(JAAS)
        self.secure = f"127.0.0.1:{secure}"
        self.server = ZooKeeperServer(
            "guarded",
            folder / "guarded",
            plain,
            jvm=replace(DEFAULT_JVM, options=(f"-Djava.security.auth.login.config={jaas}",)),
            settings={
                "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "secureClientPort": secure,
                "secureClientPortAddress": "127.0.0.1",
                "ssl.keyStore.location": TLS / "broker.pem",
                "ssl.keyStore.type": "PEM",
                "ssl.trustStore.location": TLS / "ca.pem",
                "ssl.trustStore.type": "PEM",
                "ssl.hostnameVerification": "false",
                "ssl.clientHostnameVerification": "false",
            },
        )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("guarded"))
    made.server.start()
    yield made
    made.server.kill()
    made.server.wipe()


Connect = Callable[..., ZooKeeper]


@pytest.fixture
def connect(guarded: Guarded) -> Iterator[Connect]:
    """Return `connect(security…)`, which starts a session below a root of this test.

    A test of a server that is never reached passes a short `patience`.
    """
    root = f"/guarded-{uuid4().hex[:8]}"
    made: list[ZooKeeper] = []

    def start(security: dict[str, Any], servers: str = "", patience: float = PATIENCE_SECONDS) -> ZooKeeper:
        servers = servers or (guarded.secure if security.get("tls") else guarded.server.address)
        settings = ZooKeeperSettings(
            servers=servers,
            root=root,
            connect_timeout_seconds=patience,
            security=ZooKeeperSecurity(**security),
        )
        session = ZooKeeper(settings)
        made.append(session)
        session.start()
        return session

    yield start
    for session in made:
        session.stop()


WAYS: Final = {
    "digest": DIGEST,
    "sasl": SASL,
    "certificate": MUTUAL | {"access": "creator"},
    "digest in TLS": MUTUAL | DIGEST,
    "sasl in TLS": MUTUAL | SASL,
}


@pytest.mark.parametrize("way", WAYS)
def test_nodes_are_made_read_and_deleted_by_us_and_by_nobody_else(connect: Connect, way: str) -> None:
    ours = connect(WAYS[way])
    ensure_root(ours)
    ours.create("/live/i-", b"me", ephemeral=True, sequential=True)
    ours.create("/datastreams/orders", b"secret")
    ours.create_all([("/plan/a/0", b"x"), ("/plan/a/1", b"y")])
    again = connect(WAYS[way])
    assert again.read("/datastreams/orders").data == b"secret"
    assert [node.data for node in again.read_all(["/plan/a/0", "/plan/a/1"])] == [b"x", b"y"]
    stranger = connect({})
    for forbidden in (
        lambda: stranger.read("/datastreams/orders"),
        lambda: stranger.children("/datastreams"),
        lambda: stranger.children("/plan/a"),
        lambda: stranger.children("/live"),
        lambda: stranger.children(""),
        lambda: stranger.write("/datastreams/orders", b"mine", 0),
        lambda: stranger.create("/datastreams/other"),
        lambda: stranger.delete("/datastreams/orders"),
    ):
        with pytest.raises(NotAuthorized):
            forbidden()
    assert again.write("/datastreams/orders", b"ours", 0) == 1
    again.delete_tree("/datastreams")


@pytest.mark.parametrize("other", [{"password": "wrong"}, {"username": "other", "password": "theirs"}])
def test_another_identity_of_the_same_kind_reads_nothing(connect: Connect, other: dict[str, str]) -> None:
    connect(DIGEST).create("/datastreams/orders", b"secret")
    with pytest.raises(NotAuthorized):
        connect(DIGEST | other).read("/datastreams/orders")


def test_nodes_can_be_left_open_to_all(connect: Connect) -> None:
    connect(DIGEST | {"access": "open"}).create("/datastreams/orders", b"public")
    assert connect({}).read("/datastreams/orders").data == b"public"


def test_what_is_open_is_found_whatever_the_settings_say(connect: Connect) -> None:
    before = connect(DIGEST | {"access": "open"})
    ensure_root(before)
    before.create("/datastreams/orders", b"public")
    ours, health, settings = connect(DIGEST), Health(), before._settings
    root = settings.root
    assert ours.open_nodes() == (root, f"{root}/datastreams", f"{root}/version")
    report_open_nodes(ours, ours._settings, health)
    sentence = health.conditions()[PART].sentence
    assert sentence.startswith("OPEN: ")
    assert f"{root}/datastreams" in sentence
    assert "setAcl" in sentence
    assert health.is_well
    for path in ("/datastreams/orders", "/datastreams", "/version", ""):
        ours._client.set_acls_async(root + path, CREATOR_ALL_ACL).get(timeout=PATIENCE_SECONDS)
    assert ours.open_nodes() == ()


@pytest.mark.parametrize("wrong", [{"password": "wrong"}, {"username": "nobody"}])
def test_a_wrong_password_is_refused_at_the_start_and_said(connect: Connect, wrong: dict[str, str]) -> None:
    with pytest.raises(NotAuthorized, match="rejected the credentials") as refusal:
        connect(SASL | wrong)
    assert "zookeeper.security" in refusal.value.advice
    assert "wrong" not in str(refusal.value)


@pytest.mark.parametrize(
    ("security", "why"),
    [
        (MUTUAL | {"ca_file": str(TLS / "other-ca.pem")}, "certificate verify failed"),
        (TRUSTING, "certificate required|socket|alert|EOF|closed"),
    ],
)
def test_certificates_are_checked_on_both_sides(connect: Connect, security: dict[str, Any], why: str) -> None:
    with pytest.raises(Unreachable, match=why):
        connect(security, patience=6)


def test_the_servers_name_is_checked(connect: Connect, guarded: Guarded) -> None:
    """The certificate names 127.0.0.1; 127.0.0.2 reaches the same machine under another name."""
    with pytest.raises(Unreachable):
        connect(MUTUAL, guarded.secure.replace("127.0.0.1", "127.0.0.2"), patience=6)
    assert connect(MUTUAL, guarded.secure.replace("127.0.0.1", "localhost")).is_connected


def test_a_server_is_not_verified_only_where_that_is_asked_for(connect: Connect) -> None:
    security = MUTUAL | {"ca_file": str(TLS / "other-ca.pem"), "verify": False}
    assert connect(security).children("") == ()


def test_a_server_behind_tls_says_its_version(guarded: Guarded) -> None:
    settings = ZooKeeperSettings(servers=guarded.secure, security=ZooKeeperSecurity(**MUTUAL))
    (facts,) = survey_servers(settings, PATIENCE_SECONDS)
    assert (facts.problem, facts.mode) == ("", "standalone")
    assert facts.log_bytes is not None


@pytest.mark.parametrize("security", [{}, DIGEST])
def test_a_root_of_a_newer_version_is_refused_and_left_as_it_is(
    connect: Connect, security: dict[str, str]
) -> None:
    session = connect(security)
    newer = str(znodes.FORMAT + 1)
    session.create("/version", newer.encode())
    with pytest.raises(NewerFormat, match=f"format {newer}, .* {znodes.FORMAT}\\b"):
        ensure_root(session)
    assert session.read("/version").data == newer.encode()
    assert session.children("") == ("version",)
