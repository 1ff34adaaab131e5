"""Formats errors for users: for logs, problems, events and stored results."""

from __future__ import annotations

from mirror.errors import HeadraceError
from mirror.model.bounds import LONGEST_REASON


def reason_of(error: BaseException) -> str:
    """Return the message of an error for users. An unexpected error is prefixed with its class."""
    if isinstance(error, HeadraceError):
        return legible(str(error))
    return legible(f"unexpected {named(error)}")


def damage_of(error: BaseException) -> str:
    """Return the reason why a stored document could not be parsed, for users."""
    if isinstance(error, HeadraceError):
        return legible(str(error))
    if isinstance(error, KeyError):
        return legible(f"missing {', '.join(map(repr, error.args))}")
    return legible(f"damaged document: {named(error)}")


def named(error: BaseException) -> str:
    """Return the class and message of an exception, or only the class if the message cannot be formatted."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - formatting a foreign error may fail, too
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def legible(text: str, longest: int = LONGEST_REASON) -> str:
    """Return the text, truncated to a length. Characters that UTF-8 cannot encode are escaped."""
    clean = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    return clean if len(clean) <= longest else f"{clean[: longest - 1]}…"


def reason_at(reason: str, offset: int | None) -> str:
    """Return a reason with the source offset at which copying resumes. None: unknown."""
    return reason if offset is None else f"{reason} (source offset {offset})"
