"""Sends alerts by mail over SMTP: one plain-text message for each group of alerts."""

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

from mirror.errors import Refused, TimedOut, Unreachable
from mirror.loggers import get_logger
from mirror.model.reasons import legible
from mirror.tls import trusting
from monitor.adapters.receivers.secrets import secret_from
from monitor.alerts.alert import AlertNotice
from monitor.alerts.deliveries.messages import subject_of, text_of
from monitor.alerts.settings import MailSettings

_log = get_logger(__name__)

_READY: Final = 220
_FIRST_PERMANENT: Final = 500
_LONGEST_REASON: Final = 200


class Mail:
    """Sends alerts by mail. Raises ConfigError if the certificate authorities cannot be read."""

    def __init__(self, settings: MailSettings) -> None:
        self._settings = settings
        self._tls = trusting(settings.ca_file, "ca_file")

    def send(self, notices: Sequence[AlertNotice], now_ms: int) -> None:
        """Send a group of alerts as one mail. Raises like `monitor.alerts.deliveries.ports.Receiver.send`."""
        chosen = self._settings
        password = secret_from(chosen.password_file, chosen.password_variable)
        message = message_of(chosen, notices, now_ms)
        try:
            with self._connected() as server:
                if password:
                    server.login(chosen.username, password)
                refused = server.send_message(message)
                with contextlib.suppress(smtplib.SMTPException, OSError):  # the message is accepted already
                    server.quit()
        except smtplib.SMTPRecipientsRefused as error:
            codes = sorted({code for code, _ in error.recipients.values()})
            raise _error_of(max(codes), f"the server rejected all recipients: {codes}") from error
        except smtplib.SMTPResponseException as error:
            reply = error.smtp_error
            text = reply if isinstance(reply, str) else reply.decode("utf-8", "replace")
            sentence = f"SMTP error {error.smtp_code} {legible(text, _LONGEST_REASON)}"
            raise _error_of(error.smtp_code, sentence) from error
        except UnicodeEncodeError as error:
            raise Refused("SMTP user name and password must be ASCII") from error
        except smtplib.SMTPNotSupportedError as error:
            raise Refused(f"the server lacks a required SMTP extension: {error}") from error
        except ssl.SSLError as error:
            raise Refused(f"TLS handshake failed: {error}") from error
        except TimeoutError as error:
            raise TimedOut(f"no response within {chosen.timeout_seconds:g} s") from error
        except (OSError, smtplib.SMTPException) as error:
            raise Unreachable(f"connection failed: {legible(str(error), _LONGEST_REASON)}") from error
        if refused:
            _log.warning("some mail recipients rejected", refused=sorted(refused))

    @contextlib.contextmanager
    def _connected(self) -> Iterator[smtplib.SMTP]:
        """Open an SMTP session with a total time-out. Raises TimeoutError.

        The time-out of smtplib applies only to each read, so a server that sends single bytes could block the
        session forever.
        """
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
            # The timer and the read that it interrupts may finish in either order.
            if time.monotonic() >= deadline:
                raise TimeoutError from error
            raise
        finally:
            watch.cancel()
            server.close()


class _Conversation(smtplib.SMTP):
    """An SMTP session that another thread can end even while it is connecting. `deadline`: monotonic time by
    which all connection attempts must end."""

    def __init__(self, host: str, timeout_seconds: float, deadline: float) -> None:
        super().__init__(timeout=timeout_seconds)
        self._host = host  # smtplib verifies the certificate against this name
        self._deadline = deadline
        self._handle: socket.socket | None = None
        """Duplicate of the connected socket, independent of the TLS wrapper."""

    def end(self) -> None:
        """Shut down the connection, so that pending reads fail. Called by another thread at the deadline."""
        if self._handle is not None:
            with contextlib.suppress(OSError):  # already closed
                self._handle.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the SMTP connection. Idempotent."""
        super().close()
        if self._handle is not None:
            self._handle.close()

    def begin(self, port: int, security: str, tls: ssl.SSLContext) -> None:
        """Connect to the SMTP server, with TLS according to `security`. Raises OSError, SMTPException."""
        self._implicit_tls = tls if security == "tls" else None
        code, reply = self.connect(self._host, port)
        if code != _READY:
            raise smtplib.SMTPConnectError(code, reply)
        if security == "starttls":
            self.starttls(context=tls)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        """Connect and wrap the socket like `smtplib.SMTP_SSL`."""
        plain = self._reach(host, port)
        plain.settimeout(timeout)
        self._handle = plain.dup()
        if time.monotonic() >= self._deadline:  # `end` may have run before the handle existed
            plain.close()
            raise TimeoutError
        return (
            plain
            if self._implicit_tls is None
            else self._implicit_tls.wrap_socket(plain, server_hostname=host)
        )

    def _reach(self, host: str, port: int) -> socket.socket:
        """Connect to the first address that accepts. Each attempt may use all of the remaining time."""
        failure: OSError = TimeoutError()
        for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            if (left := self._deadline - time.monotonic()) <= 0:
                raise TimeoutError
            try:
                return socket.create_connection((str(address[0]), int(address[1])), left)
            except OSError as error:
                failure = error
        raise failure


def message_of(settings: MailSettings, notices: Sequence[AlertNotice], now_ms: int) -> EmailMessage:
    """Return the mail for a group of alerts. Header values are single lines, so that names cannot inject
    headers."""
    message = EmailMessage()
    message["From"] = settings.sender
    message["To"] = ", ".join(settings.recipients)
    message["Subject"] = subject_of(notices)
    message["Date"] = format_datetime(datetime.fromtimestamp(now_ms / 1000, UTC))
    message["Message-ID"] = make_msgid(domain=settings.sender.rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text_of(notices))
    return message


def _error_of(code: int, reply: str) -> Exception:
    """Return the error for an SMTP reply code (RFC 5321, 4.2.1): 4yz is transient, 5yz permanent."""
    return Refused(reply) if code >= _FIRST_PERMANENT else Unreachable(reply)
