"""Mail server on loopback that records the messages of smtplib."""

from __future__ import annotations

import base64
import contextlib
import socketserver
import ssl
import threading
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Final

from stack.ports import LOOPBACK
from tests.patience import PATIENCE_SECONDS

FILES: Final = Path(__file__).parents[1] / "data/tls/rest"


@dataclass
class ReceivedMail:
    """Message with its envelope."""

    sender: str = ""
    recipients: list[str] = field(default_factory=list)
    message: EmailMessage = field(default_factory=EmailMessage)
    raw: bytes = b""
    was_encrypted: bool = False
    credentials: tuple[str, str] | None = None


class MailServer:
    """Recording mail server. `replies`: overrides of the usual replies, by command or by recipient."""

    def __init__(self, *, offers_tls: bool = True) -> None:
        self.letters: list[ReceivedMail] = []
        self.replies: dict[str, str] = {}
        self.offers_tls = offers_tls
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(FILES / "server.pem")
        mail = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                session = _Session(mail, self)
                with contextlib.closing(session):
                    session.run()

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """Ignore clients that disconnect."""

        self._server = Server((LOOPBACK, 0), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> MailServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_SECONDS)


class _Session:
    """One connection."""

    def __init__(self, mail: MailServer, handler: socketserver.StreamRequestHandler) -> None:
        self._mail = mail
        self._socket = handler.connection
        self._lines = handler.rfile
        self._letter = ReceivedMail()
        self._is_encrypted = False
        self._credentials: tuple[str, str] | None = None

    def run(self) -> None:
        self._say(self._mail.replies.get("CONNECT", "220 here"))
        while line := self._lines.readline():
            text = line.decode().strip()
            verb = text.split(" ")[0].upper()
            reply = self._mail.replies.get(verb) or self._answer(verb, text)
            self._say(reply)
            if verb == "QUIT":
                return
            if verb == "STARTTLS" and reply.startswith("220"):
                self._encrypt()
            if verb == "DATA" and reply.startswith("354"):
                self._take()

    def close(self) -> None:
        self._lines.close()
        self._socket.close()

    def _answer(self, verb: str, text: str) -> str:
        if verb == "EHLO":
            more = [] if self._is_encrypted or not self._mail.offers_tls else ["STARTTLS"]
            offers = ["here", *more, "AUTH PLAIN"]
            return "\r\n".join(
                f"250{' ' if number == len(offers) - 1 else '-'}{one}" for number, one in enumerate(offers)
            )
        if verb == "AUTH":
            _, user, password = base64.b64decode(text.split(" ")[2]).decode().split("\0")
            self._credentials = user, password
            return "235 welcome"
        address = text.partition("<")[2].partition(">")[0]
        if verb == "MAIL":
            self._letter = ReceivedMail(
                address, was_encrypted=self._is_encrypted, credentials=self._credentials
            )
        if verb == "RCPT":
            if address in self._mail.replies:
                return self._mail.replies[address]
            self._letter.recipients.append(address)
        return {"STARTTLS": "220 go ahead", "DATA": "354 go ahead", "QUIT": "221 bye"}.get(verb, "250 fine")

    def _encrypt(self) -> None:
        self._socket = self._mail.tls.wrap_socket(self._socket, server_side=True)
        self._lines.close()
        self._lines = self._socket.makefile("rb")
        self._is_encrypted = True

    def _take(self) -> None:
        lines = []
        while (line := self._lines.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        self._letter.raw = b"".join(lines)
        parsed = message_from_bytes(self._letter.raw, policy=policy.SMTP)
        assert isinstance(parsed, EmailMessage)
        self._letter.message = parsed
        self._mail.letters.append(self._letter)
        self._say("250 taken")

    def _say(self, text: str) -> None:
        self._socket.sendall(text.encode() + b"\r\n")
