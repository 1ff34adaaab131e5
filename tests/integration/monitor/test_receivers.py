"""Adapters of alert receivers with servers on loopback.

The tests of Alertmanager run with `CheckingAlertmanager`, which has its checks, and with Alertmanager itself
if its binary is on the PATH (Debian's `prometheus-alertmanager`).
"""

from __future__ import annotations

import gzip
import hashlib
import hmac
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from pydantic import SecretStr

from mirror.adapters.system_clock import SystemClock
from mirror.errors import ConfigError, InvalidRequest, Refused, TimedOut, Unreachable
from monitor.adapters.receivers.alertmanager import Alertmanager
from monitor.adapters.receivers.http_call import HttpCall
from monitor.adapters.receivers.mail import Mail
from monitor.adapters.receivers.webhook import Webhook
from monitor.alerts.alert import Alert, AlertNotice, Style
from monitor.alerts.catalogue import BLIND, HALTED
from monitor.alerts.deliveries.ports import RetryLater
from monitor.alerts.settings import AlertmanagerSettings, MailSettings, WebhookSettings
from stack.ports import LOOPBACK
from tests.alertmanagers import running_alertmanager
from tests.debian import ALERTMANAGER
from tests.fakes.alert_receivers import CheckingAlertmanager, HttpReceiver, Reply, dripping
from tests.fakes.mail_server import FILES, MailServer
from tests.patience import PATIENCE_SECONDS, wait_until

STYLE: Final = Style({"team": "ingest"}, "https://docs.example.com/runbooks/{alertname}/", "http://here:1")
HAS_ALERTMANAGER: Final = shutil.which(ALERTMANAGER.name) is not None
AUTHORITY: Final = str(FILES / "authority.pem")
NOBODY: Final = f"http://{LOOPBACK}:1"
ROUTE: Final = 'route: {receiver: nobody}\nreceivers: [{name: "nobody"}]\n'


def now() -> int:
    return SystemClock().now_ms()


def a_notice(name: str = "orders", *, ended_ms: int | None = None, since_ms: int = 0) -> AlertNotice:
    since_ms = since_ms or now() - 60_000
    return STYLE.notice(
        Alert(HALTED, f"{name} stands", "east does not answer", since_ms, name, "east"), ended_ms
    )


@pytest.fixture(scope="module", params=["in its place", *(["itself"] if HAS_ALERTMANAGER else [])])
def alertmanager(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "itself":
        with running_alertmanager(tmp_path_factory.mktemp("alertmanager"), ROUTE) as url:
            yield url
    else:
        with CheckingAlertmanager() as checking:
            yield checking.url


def shown(url: str, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.get(f"{url}/api/v2/alerts").raise_for_status().json()
    return [one for one in found if one["labels"].get("datastream") == name]


def test_alertmanager_shows_what_fires_once_until_it_is_over(alertmanager: str) -> None:
    receiver = Alertmanager(AlertmanagerSettings(url=SecretStr(alertmanager)))
    notice = a_notice("fires")
    receiver.send([notice, a_notice("beside it")], now())
    (first,) = wait_until(lambda: shown(alertmanager, "fires"))
    assert first["labels"] == dict(notice.labels)
    assert first["annotations"] == dict(notice.annotations)
    assert first["generatorURL"] == "http://here:1/v1/datastreams/fires"
    receiver.send([notice], now() + 5_000)
    wait_until(lambda: shown(alertmanager, "fires")[0]["endsAt"] > first["endsAt"])
    assert len(shown(alertmanager, "fires")) == 1
    receiver.send([a_notice("fires", ended_ms=now(), since_ms=notice.starts_ms)], now())
    wait_until(lambda: not shown(alertmanager, "fires"))


def test_a_clock_that_went_back_keeps_no_alert_from_alertmanager(alertmanager: str) -> None:
    """The clock goes back by an hour between the start of an alert and its resolution."""
    receiver = Alertmanager(AlertmanagerSettings(url=SecretStr(alertmanager)))
    notice = a_notice("from the future", since_ms=now() + 3_600_000)
    receiver.send([notice], now())
    wait_until(lambda: shown(alertmanager, "from the future"))
    receiver.send([replace(notice, ended_ms=notice.starts_ms)], now())
    wait_until(lambda: not shown(alertmanager, "from the future"))


def test_what_is_not_refreshed_any_more_ends_in_alertmanager(alertmanager: str) -> None:
    """A dead monitor does not refresh its alerts."""
    chosen = AlertmanagerSettings(url=SecretStr(alertmanager), refresh_seconds=0.3)
    Alertmanager(chosen).send([a_notice("left")], now())
    wait_until(lambda: not shown(alertmanager, "left"))


def test_alertmanager_says_what_it_does_not_take(alertmanager: str) -> None:
    wrong = AlertNotice({"no-label": "x"}, {}, "http://here", now())
    with pytest.raises(InvalidRequest, match=r"4\d\d: .*invalid"):
        Alertmanager(AlertmanagerSettings(url=SecretStr(alertmanager))).send([wrong], now())


@pytest.fixture
def listener() -> Iterator[HttpReceiver]:
    with HttpReceiver() as found:
        yield found


def test_credentials_are_read_for_every_message(listener: HttpReceiver, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    receiver = Alertmanager(
        AlertmanagerSettings(url=SecretStr(f"{listener.url}/prefix/"), token_file=str(secret))
    )
    for token in ("first", "second\n"):
        secret.write_text(token)
        receiver.send([a_notice()], now())
    assert [one.headers["Authorization"] for one in listener.requests] == ["Bearer first", "Bearer second"]
    assert {one.path for one in listener.requests} == {"/prefix/api/v2/alerts"}
    secret.unlink()
    with pytest.raises(Refused, match=str(secret)):
        receiver.send([a_notice()], now())


def test_a_password_is_sent_to_this_machine_or_through_tls_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "hush")
    chosen = AlertmanagerSettings(
        url=SecretStr("http://elsewhere.example"), username="ci", password_variable="PAGER"
    )
    with pytest.raises(Refused, match="without TLS") as refused:
        Alertmanager(chosen).send([a_notice()], now())
    assert "hush" not in str(refused.value)


def test_a_webhook_is_signed_and_has_text_for_people_and_alerts_for_programs(
    listener: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", f"{listener.url}/T0/secret")
    monkeypatch.setenv("KEY", "k1")
    chosen = WebhookSettings(url_variable="HOOK", secret_variable="KEY")
    receiver = Webhook("chat", chosen, ["alertname", "cluster"])
    receiver.send([a_notice("<!channel>"), a_notice("b", ended_ms=now())], 1_700_000_000_123)
    (request,) = listener.requests
    assert request.path == "/T0/secret"
    expected = hmac.new(b"k1", b"1700000000." + request.body, hashlib.sha256).hexdigest()
    assert request.headers["X-Headrace-Timestamp"] == "1700000000"
    assert request.headers["X-Headrace-Signature"] == f"v1={expected}"
    document = request.document
    assert document["text"].startswith("[1 firing, 1 resolved] HeadraceDatastreamHalted ")
    assert "<!channel>" not in document["text"]
    assert "&lt;!channel&gt;" in document["text"]
    assert (document["version"], document["status"], document["receiver"]) == ("4", "firing", "chat")
    assert document["groupLabels"] == {"alertname": "HeadraceDatastreamHalted", "cluster": "east"}
    assert [one["status"] for one in document["alerts"]] == ["firing", "resolved"]
    assert document["alerts"][0]["endsAt"] == "0001-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, InvalidRequest),
        (413, InvalidRequest),
        (401, Refused),
        (404, Refused),
        (302, Refused),
        (408, RetryLater),
        (429, RetryLater),
        (500, RetryLater),
        (503, RetryLater),
    ],
)
def test_what_an_answer_means(listener: HttpReceiver, status: int, error: type[Exception]) -> None:
    listener.answer = lambda _: Reply(status, b"it is hush", {"Retry-After": "17", "Location": "/there"})
    with pytest.raises(error, match=str(status)) as raised:
        Webhook("chat", WebhookSettings(url=SecretStr(listener.url)), []).send([a_notice()], now())
    assert "hush" not in str(raised.value)
    if isinstance(raised.value, RetryLater):
        assert raised.value.retry_after == 17.0
    assert len(listener.requests) == 1


def test_a_compressed_answer_is_not_opened(listener: HttpReceiver) -> None:
    listener.answer = lambda _: Reply(400, gzip.compress(b"long story"), {"Content-Encoding": "gzip"})
    call = HttpCall("", PATIENCE_SECONDS, shows_answers=True)
    with pytest.raises(InvalidRequest) as refusal:
        call.post(listener.url, b"{}", {}, has_credentials=False, now_ms=now())
    assert "long story" not in str(refusal.value)


def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    with dripping(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100_000) as port:
        chosen = WebhookSettings(url=SecretStr(f"http://{LOOPBACK}:{port}"))
        Webhook("chat", chosen, []).send([a_notice()], now())


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
@pytest.mark.parametrize("drop", [b"", b"x"], ids=["silent", "dripping"])
def test_a_server_that_does_not_finish_its_answer_is_left(beginning: bytes, drop: bytes) -> None:
    with dripping(beginning, drop) as port:
        chosen = WebhookSettings(url=SecretStr(f"http://{LOOPBACK}:{port}"), timeout_seconds=0.3)
        with pytest.raises(TimedOut):
            Webhook("chat", chosen, []).send([a_notice()], now())


def test_who_is_not_there_is_named_without_the_address() -> None:
    with pytest.raises(Unreachable) as raised:
        Webhook("chat", WebhookSettings(url=SecretStr(f"{NOBODY}/T0/secret")), []).send([a_notice()], now())
    assert "secret" not in str(raised.value)


def test_a_password_in_an_address_goes_through_tls_only() -> None:
    chosen = AlertmanagerSettings(url=SecretStr("http://alice:hush@alerts.example.com:9093"))
    with pytest.raises(Refused, match="TLS") as raised:
        Alertmanager(chosen).send([a_notice()], now())
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("address", ["", "no address", "ftp://there/secret", "http://", "http://[secret"])
def test_an_address_that_is_none_is_refused_without_showing_it(address: str, tmp_path: Path) -> None:
    (tmp_path / "url").write_text(address)
    with pytest.raises(Refused) as raised:
        Webhook("chat", WebhookSettings(url_file=str(tmp_path / "url")), []).send([a_notice()], now())
    assert "secret" not in str(raised.value)


def mail_settings(server: MailServer, **more: Any) -> MailSettings:
    known = {"host": "localhost", "port": server.port, "ca_file": AUTHORITY}
    known |= {"sender": "headrace@example.com", "recipients": ["a@example.com", "b@example.com"]}
    return MailSettings(**(known | more))


@pytest.fixture
def post() -> Iterator[MailServer]:
    with MailServer() as found:
        yield found


def test_mail_goes_through_starttls_with_the_password(
    post: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL", "hush")
    chosen = mail_settings(post, username="headrace", password_variable="MAIL")
    Mail(chosen).send([a_notice("orders"), a_notice("clicks")], 1_700_000_000_000)
    (letter,) = post.letters
    assert letter.was_encrypted
    assert letter.credentials == ("headrace", "hush")
    assert (letter.sender, letter.recipients) == ("headrace@example.com", ["a@example.com", "b@example.com"])
    assert letter.message["Subject"] == "[2 firing] HeadraceDatastreamHalted east"
    assert letter.message["Auto-Submitted"] == "auto-generated"
    assert letter.message["Date"].datetime.timestamp() == 1_700_000_000
    text = letter.message.get_content()
    assert "orders stands" in text
    assert "https://docs.example.com/runbooks/HeadraceDatastreamHalted/" in text


def test_a_name_adds_no_header(post: MailServer) -> None:
    hostile = "x\r\nBcc: all@example.com\r\n\r\n<b>y\u2028z\x0b\x85é"
    alert = Alert(BLIND, hostile, hostile, now(), hostile, hostile)
    Mail(mail_settings(post)).send([STYLE.notice(alert)], now())
    (letter,) = post.letters
    assert letter.recipients == ["a@example.com", "b@example.com"]
    assert letter.message["Bcc"] is None
    headers = letter.raw.partition(b"\r\n\r\n")[0].decode("ascii")
    assert sum(not line.startswith((" ", "\t")) for line in headers.splitlines()) == len(
        letter.message.keys()
    )
    assert {*letter.message.keys()} == {
        *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Type"),
        *("Content-Transfer-Encoding", "MIME-Version"),
    }


def test_a_server_without_starttls_gets_nothing() -> None:
    with MailServer(offers_tls=False) as server:
        with pytest.raises(Refused, match="STARTTLS"):
            Mail(mail_settings(server)).send([a_notice()], now())
        assert server.letters == []
        Mail(mail_settings(server, security="none")).send([a_notice()], now())
        assert not server.letters[0].was_encrypted


def test_a_server_that_nobody_vouches_for_gets_nothing(post: MailServer) -> None:
    with pytest.raises(Refused, match="TLS"):
        Mail(mail_settings(post, ca_file="")).send([a_notice()], now())
    assert post.letters == []


@pytest.mark.parametrize(
    ("replies", "error", "said"),
    [
        ({"CONNECT": "421 later"}, Unreachable, "421 later"),
        ({"MAIL": "451 later"}, Unreachable, "451 later"),
        ({"MAIL": "550 never"}, Refused, "550 never"),
        ({"DATA": "554 never"}, Refused, "554 never"),
        ({"RCPT": "550 nobody"}, Refused, r"recipients: \[550\]"),
        ({"RCPT": "450 greylisted"}, Unreachable, r"recipients: \[450\]"),
        ({"AUTH": "535 wrong"}, Refused, "535 wrong"),
    ],
)
def test_what_a_mail_server_means(
    post: MailServer, replies: dict[str, str], error: type[Exception], said: str, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("hush")
    post.replies = replies
    chosen = mail_settings(post, username="headrace", password_file=str(tmp_path / "password"))
    with pytest.raises(error, match=said) as raised:
        Mail(chosen).send([a_notice()], now())
    assert "hush" not in str(raised.value)
    assert post.letters == []


def test_one_recipient_that_is_refused_keeps_no_mail_from_the_others(post: MailServer) -> None:
    post.replies = {"a@example.com": "550 nobody"}
    Mail(mail_settings(post)).send([a_notice()], now())
    assert [one.recipients for one in post.letters] == [["b@example.com"]]


@pytest.mark.parametrize("beginning", [b"", b"220-here\r\n"])
@pytest.mark.parametrize("drop", [b"", b"220-x\r\n"], ids=["silent", "dripping"])
def test_a_mail_server_that_does_not_finish_is_left(beginning: bytes, drop: bytes) -> None:
    with MailServer() as server, dripping(beginning, drop) as port:
        chosen = mail_settings(server, port=port, timeout_seconds=0.3)
        with pytest.raises(TimedOut):
            Mail(chosen).send([a_notice()], now())


def test_a_mail_server_that_does_not_finish_with_tls_is_left() -> None:
    hello = b"220 here\r\n250-here\r\n250 STARTTLS\r\n220 go\r\n"
    record = b"\x16\x03\x03\x40\x00"  # the beginning of a long record
    with MailServer() as server, dripping(hello, record) as port, pytest.raises(TimedOut):
        Mail(mail_settings(server, port=port, timeout_seconds=0.3)).send([a_notice()], now())


def test_a_mail_server_that_answers_late_at_its_second_address_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = socket.getaddrinfo
    with MailServer() as server, dripping(b"", b"220-x\r\n") as port, taking_nobody() as silent:
        both = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (LOOPBACK, one)) for one in (silent, port)]
        monkeypatch.setattr(
            socket, "getaddrinfo", lambda *a, **k: both if a[0] == "localhost" else real(*a, **k)
        )
        with pytest.raises(TimedOut):
            Mail(mail_settings(server, timeout_seconds=0.3)).send([a_notice()], now())


@contextmanager
def taking_nobody() -> Iterator[int]:
    """Yield the port of a listener with a full queue, to which connections wait."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((LOOPBACK, 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_a_read_that_ends_before_the_watch_over_it_is_a_time_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Timer, "start", lambda _: None)
    with MailServer() as server, dripping(b"", b"") as port, pytest.raises(TimedOut):
        Mail(mail_settings(server, port=port, timeout_seconds=0.3)).send([a_notice()], now())


def test_a_mail_server_that_is_away_may_come_back(post: MailServer) -> None:
    with pytest.raises(Unreachable):
        Mail(mail_settings(post, port=1)).send([a_notice()], now())


def test_authorities_that_cannot_be_read_are_said_at_the_start() -> None:
    with pytest.raises(ConfigError, match="/nowhere"):
        Alertmanager(AlertmanagerSettings(url=SecretStr(NOBODY), ca_file="/nowhere"))
    with MailServer() as server, pytest.raises(ConfigError, match="/nowhere"):
        Mail(mail_settings(server, ca_file="/nowhere"))
