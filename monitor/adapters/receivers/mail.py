"""Mail by SMTP: one message for each group of alerts, plain text."""

from __future__ import annotations

import contextlib
import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import Final

import structlog

from mirror.errors import Refused, TimedOut, Unreachable, legible
from mirror.tls import trusting
from monitor.adapters.receivers.secrets import secret_from
from monitor.alerts.alert import Notice
from monitor.alerts.deliveries.messages import subject_of, text_of
from monitor.alerts.settings import MailSettings

_log = structlog.get_logger(__name__)

_READY: Final = 220
_FIRST_PERMANENT: Final = 500
_LONGEST_REASON: Final = 200


class Mail:
    """A mail server and its recipients. Raises ConfigError for authorities that cannot be read."""

    def __init__(self, settings: MailSettings) -> None:
        self._settings = settings
        self._tls = trusting(settings.ca_file, "ca_file")

    def send(self, notices: Sequence[Notice], now_ms: int) -> None:
        """Raises as `monitor.alerts.deliveries.ports.Receiver` says."""
        chosen = self._settings
        password = secret_from(chosen.password_file, chosen.password_variable)
        message = message_of(chosen, notices, now_ms)
        try:
            with self._connected() as server:
                if password:
                    server.login(chosen.username, password)
                refused = server.send_message(message)
                with contextlib.suppress(smtplib.SMTPException, OSError):  # it has taken the message
                    server.quit()
        except smtplib.SMTPRecipientsRefused as error:
            codes = sorted({code for code, _ in error.recipients.values()})
            raise _error_of(max(codes), f"it takes no mail for any recipient: {codes}") from error
        except smtplib.SMTPResponseException as error:
            said = error.smtp_error
            text = said if isinstance(said, str) else said.decode("utf-8", "replace")
            sentence = f"it answers {error.smtp_code} {legible(text, _LONGEST_REASON)}"
            raise _error_of(error.smtp_code, sentence) from error
        except UnicodeEncodeError as error:
            raise Refused("SMTP takes user names and passwords of ASCII only") from error
        except smtplib.SMTPNotSupportedError as error:
            raise Refused(f"it cannot what is asked for: {error}") from error
        except ssl.SSLError as error:
            raise Refused(f"no TLS with it: {error}") from error
        except TimeoutError as error:
            raise TimedOut(f"it did not answer within {chosen.timeout_seconds:g} s") from error
        except (OSError, smtplib.SMTPException) as error:
            raise Unreachable(f"it cannot be reached: {legible(str(error), _LONGEST_REASON)}") from error
        if refused:
            _log.warning("mail goes to some recipients only", refused=sorted(refused))

    @contextlib.contextmanager
    def _connected(self) -> Iterator[smtplib.SMTP]:
        """A conversation of at most the time-out: smtplib's own is for each read, so that a server which
        sends a byte now and then would hold it for ever. Raises TimeoutError."""
        chosen = self._settings
        deadline = time.monotonic() + chosen.timeout_seconds
        server = _Conversation(chosen.host, chosen.timeout_seconds, deadline)
        watch = threading.Timer(chosen.timeout_seconds, server.end)
        watch.daemon = True
        watch.start()
        try:
            server.begin(chosen.port, chosen.security, self._tls)
            yield server
        except (OSError, smtplib.SMTPException) as error:
            # The watch and the read that it ends may be late in either order.
            if time.monotonic() >= deadline:
                raise TimeoutError from error
            raise
        finally:
            watch.cancel()
            server.close()


class _Conversation(smtplib.SMTP):
    """One that is not connected yet, so that there is something to close while it connects. `deadline`: in
    monotonic seconds, of the connection to whichever address of the host."""

    def __init__(self, host: str, timeout_seconds: float, deadline: float) -> None:
        super().__init__(timeout=timeout_seconds)
        self._host = host  # whose certificate is looked for
        self._deadline = deadline
        self._handle: socket.socket | None = None
        """Of the connection, whatever TLS makes of the socket."""

    def end(self) -> None:
        """Whatever waits for the server fails. From another thread, at the deadline."""
        if self._handle is not None:
            with contextlib.suppress(OSError):  # it is closed by now
                self._handle.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connection. Idempotent."""
        super().close()
        if self._handle is not None:
            self._handle.close()

    def begin(self, port: int, security: str, tls: ssl.SSLContext) -> None:
        """Connect, with TLS as it is wanted. Raises OSError, SMTPException."""
        self._implicit_tls = tls if security == "tls" else None
        code, said = self.connect(self._host, port)
        if code != _READY:
            raise smtplib.SMTPConnectError(code, said)
        if security == "starttls":
            self.starttls(context=tls)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        """As `smtplib.SMTP_SSL` has it."""
        plain = self._reach(host, port)
        plain.settimeout(timeout)
        self._handle = plain.dup()
        if time.monotonic() >= self._deadline:  # `end` may have found nothing to close
            plain.close()
            raise TimeoutError
        return (
            plain
            if self._implicit_tls is None
            else self._implicit_tls.wrap_socket(plain, server_hostname=host)
        )

    def _reach(self, host: str, port: int) -> socket.socket:
        """By the first address that takes the connection: each has the time that is left."""
        failure: OSError = TimeoutError()
        for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            if (left := self._deadline - time.monotonic()) <= 0:
                raise TimeoutError
            try:
                return socket.create_connection((str(address[0]), int(address[1])), left)
            except OSError as error:
                failure = error
        raise failure


def message_of(settings: MailSettings, notices: Sequence[Notice], now_ms: int) -> EmailMessage:
    """Headers of one line each: what is in a name cannot add another."""
    message = EmailMessage()
    message["From"] = settings.sender
    message["To"] = ", ".join(settings.recipients)
    message["Subject"] = subject_of(notices)
    message["Date"] = format_datetime(datetime.fromtimestamp(now_ms / 1000, UTC))
    message["Message-ID"] = make_msgid(domain=settings.sender.rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text_of(notices))
    return message


def _error_of(code: int, said: str) -> Exception:
    """RFC 5321, 4.2.1: 4yz may pass, 5yz stays as it is."""
    return Refused(said) if code >= _FIRST_PERMANENT else Unreachable(said)
