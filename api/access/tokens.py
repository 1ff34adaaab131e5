"""Stores the hashes of tokens in a file, and reloads the file when it changes.

A token is `hr_<id>_<secret>` with 256 random bits, so a plain SHA-256 cannot be reversed. Each line of the
file is one token as a JSON object. An unreadable file admits no token. Commands that edit the file replace
the whole file, while they hold a lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from api.access.rights import Principal, Role
from mirror.errors import ConfigError, HeadraceError, InvalidRequest, NotAuthenticated, NotFound, Unreachable
from mirror.files import OF_OWNER, replace_file
from mirror.model import bounds
from mirror.model.bounds import shown
from mirror.model.documents import parsed
from mirror.model.look_alikes import check_look
from mirror.ports import Clock

PREFIX: Final = "hr_"
"""Prefix of tokens of this service."""
_TOKEN: Final = re.compile(r"hr_([0-9a-f]{8})_([0-9a-f]{64})")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_ID: Final = re.compile(r"[0-9a-f]{8}")
_MOST_OWNERS: Final = 1_000
_WRITABLE_BY_OTHERS: Final = 0o022
_NOBODYS: Final = "0" * 64
"""Hash to compare with if the id of a token is unknown.

The check therefore takes as long as for an existing id.
"""


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """Entry of a token in the token file. `expires_ms` None means that the token never expires."""

    identity: str
    principal: Principal
    sha256: str
    created_ms: int
    expires_ms: int | None = None

    def line(self) -> str:
        """Return the entry as a line of the token file."""
        principal = self.principal
        return json.dumps(
            {
                "id": self.identity,
                "name": principal.name,
                "role": principal.role.value,
                "owners": sorted(principal.owners),
                "sha256": self.sha256,
                "created_ms": self.created_ms,
                "expires_ms": self.expires_ms,
            },
            ensure_ascii=True,
        )


RESERVED: Final = frozenset({"headrace", "monitor", "brooklin", "nobody", "everybody", "not asked"})
"""Names of principals that the service itself uses."""


def new_token(principal: Principal, now_ms: int, expires_ms: int | None = None) -> tuple[str, TokenEntry]:
    """Return a new token, and the entry for the token file, which contains only the token's hash."""
    identity, secret = secrets.token_hex(4), secrets.token_hex(32)
    return f"hr_{identity}_{secret}", TokenEntry(identity, principal, _hash(secret), now_ms, expires_ms)


def principal_named(name: object, role: object, owners: object) -> Principal:
    """Return a principal after validating its name, role and owners. Raises InvalidRequest."""
    found = bounds.line("the name", name)
    role_ = bounds.choice("the role", Role, role)
    owner_names = frozenset(
        bounds.line("an owner", owner) for owner in bounds.sequence("owners", owners, _MOST_OWNERS)
    )
    if bool(owner_names) != (role_ is Role.OWNER):
        raise InvalidRequest(f"{found}: role {Role.OWNER} requires owners; other roles must not have any")
    return Principal(found, role_, owner_names)


def check_not_reserved(name: str, prefix: str = "oidc:") -> None:
    """Raise InvalidRequest if a new principal cannot have this name.

    A name is not allowed if it is reserved, starts with the prefix of OpenID Connect principals, or can be
    mistaken for another name.
    """
    check_look(name, "a principal")
    folded = name.casefold()
    if folded in RESERVED or folded.startswith(prefix.casefold()):
        raise InvalidRequest(f"{shown(name)} is reserved", advice="choose another name")


def read_entries(path: Path) -> dict[str, TokenEntry]:
    """Parse a token file, and map each token id to its entry. Raises ConfigError with the line number."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & _WRITABLE_BY_OTHERS:
                raise ConfigError(
                    f"{path} is writable by users other than its owner", advice=f"run chmod 600 {path}"
                )
            lines = file.read().splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read the tokens in {path}: {error.strerror}") from error
    found: dict[str, TokenEntry] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith(b"#"):
            continue
        try:
            entry = _entry(bounds.mapping("a token", parsed(line)))
            if entry.identity in found:
                raise InvalidRequest(f"two tokens have the id {entry.identity}")
        except HeadraceError as error:
            raise ConfigError(f"{path}, line {number}: {error}") from error
        found[entry.identity] = entry
    return found


def _entry(document: Mapping[str, Any]) -> TokenEntry:
    identity = bounds.text("the id", bounds.field(document, "id"), 8)
    sha256 = bounds.text("the hash", bounds.field(document, "sha256"), 64)
    if not _ID.fullmatch(identity) or not _HASH.fullmatch(sha256):
        raise InvalidRequest("id and sha256 must be 8 and 64 hexadecimal digits")
    expires = document.get("expires_ms")
    return TokenEntry(
        identity,
        principal_named(
            bounds.field(document, "name"), bounds.field(document, "role"), document.get("owners", [])
        ),
        sha256,
        bounds.integer("created_ms", bounds.field(document, "created_ms"), 0, bounds.LARGEST_MS),
        None if expires is None else bounds.integer("expires_ms", expires, 0, bounds.LARGEST_MS),
    )


class TokenFile:
    """A file with token hashes, reloaded when it has changed. Thread-safe.

    `report` is called with the reason when the file becomes unreadable, and with an empty text when it is
    readable again.
    """

    def __init__(self, path: Path, clock: Clock, report: Callable[[str], None] = lambda _: None) -> None:
        self._path = path
        self._clock = clock
        self._report = report
        self._problem = ""
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] = ()
        self._entries: dict[str, TokenEntry] = {}

    def check(self) -> None:
        """Raise ConfigError if the token file is unreadable."""
        self._read()

    @property
    def is_readable(self) -> bool:
        """True if tokens can be looked up now."""
        try:
            self._read()
        except ConfigError:
            return False
        return True

    def principal_of(self, token: str) -> Principal:
        """Return the principal of a token. Raises NotAuthenticated, and Unreachable if the file is
        unreadable."""
        try:
            entries = self._read()
        except ConfigError as error:
            raise Unreachable("cannot look up tokens", advice="see the log of this instance") from error
        found = _TOKEN.fullmatch(token)
        identity, secret = (found[1], found[2]) if found else ("", token[:1_000])
        entry = entries.get(identity)
        is_right = hmac.compare_digest(_hash(secret), entry.sha256 if entry else _NOBODYS)
        if entry is None or not is_right:
            raise NotAuthenticated("unknown or revoked token")
        if entry.expires_ms is not None and entry.expires_ms <= self._clock.now_ms():
            raise NotAuthenticated(f"token {entry.identity} has expired", advice="request a new token")
        return entry.principal

    def _read(self) -> dict[str, TokenEntry]:
        """Return the entries of the token file, and report when it becomes readable or unreadable. Raises
        ConfigError."""
        problem = ""
        try:
            return self._newest()
        except ConfigError as error:
            problem = str(error)
            raise
        finally:
            if problem != self._problem:
                self._problem = problem
                self._report(problem)

    def _newest(self) -> dict[str, TokenEntry]:
        with self._lock:
            try:
                now = os.stat(self._path)
            except OSError as error:
                self._seen = ()
                raise ConfigError(f"cannot read the tokens in {self._path}: {error.strerror}") from error
            seen = (now.st_dev, now.st_ino, now.st_mtime_ns, now.st_ctime_ns, now.st_size)
            if seen != self._seen:
                self._seen = ()
                self._entries = read_entries(self._path)
                self._seen = seen
            return self._entries


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def add_entry(path: Path, entry: TokenEntry) -> None:
    """Append a token's entry to the token file; create the file if it is missing. Raises ConfigError.

    A new file is readable only by its owner.
    """
    _edit(path, lambda lines: [*lines, entry.line().encode()])


def revoke(path: Path, identity: str) -> TokenEntry:
    """Remove a token's entry from the token file, and return it. Raises NotFound, ConfigError."""
    found = read_entries(path).get(identity)
    if found is None:
        raise NotFound(
            f"no token {shown(identity)} in {path}", advice="list the tokens with headrace token list"
        )
    own = found.line().encode()
    _edit(path, lambda lines: [line for line in lines if line.strip() != own])
    if identity in read_entries(path):
        raise ConfigError(f"cannot parse the entry of token {identity} in {path}; delete that line")
    return found


def _edit(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    try:
        with _alone(path.parent):
            lines: list[bytes] = []
            if path.exists():
                read_entries(path)
                lines = path.read_bytes().splitlines()
            _replace(path, b"".join(line + b"\n" for line in change(lines)))
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder of the token file, so that no other command edits it at the same time."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, content: bytes) -> None:
    """Replace the token file atomically. A new file is readable only by its owner."""
    mode = path.stat().st_mode & 0o755 if path.exists() else OF_OWNER
    replace_file(path, content, mode)
