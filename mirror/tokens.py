"""Bearer tokens in files, which an external process renews by replacing the file."""

from __future__ import annotations

from collections.abc import Callable

from mirror.errors import NotAuthorized


def token_from_file(path: str) -> Callable[[], str]:
    """Return a function that reads the token for each authentication; it raises NotAuthorized if the file is
    unreadable."""

    def read() -> str:
        try:
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise NotAuthorized(
                f"cannot read the token file {path} ({getattr(error, 'strerror', 'it is not UTF-8')})",
                advice="the process that renews it must make it readable for the user of this service",
            ) from error

    return read
