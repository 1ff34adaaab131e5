"""Programs of Debian's packages, unpacked into the cache without root."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stack.folders import alone_in

_CACHE: Final = Path(__file__).parents[1] / ".cache"
_SECONDS: Final = 300


@dataclass(frozen=True)
class DebianProgram:
    """A program from the PATH or from a Debian package, which is fetched on demand.

    A failure to fetch a package is remembered until the caches are emptied.

    `data`: absolute path of a folder of the package that the program reads. An unpacked program reads its
    working directory instead, which must be `directory`.
    """

    name: str
    package: str
    data: str = ""

    @property
    def _folder(self) -> Path:
        return _CACHE / self.package

    @property
    def _failure(self) -> Path:
        return self._folder / "cannot"

    @property
    def directory(self) -> Path | None:
        """Directory to run the program in; None for any."""
        found = self._folder / self.data.lstrip("/")
        return found if self.data and found.exists() else None

    def known_path(self) -> str | None:
        """Return the path if the program is already on this machine."""
        unpacked = self._folder / "usr/bin" / self.name
        return shutil.which(self.name) or (str(unpacked) if unpacked.exists() else None)

    def path(self) -> str | None:
        """Return the path, or None if unavailable. Concurrent calls wait for each other."""
        if not self.known_path():
            with alone_in(self._folder):
                if not self.known_path() and not self.has_failed():
                    self._fetch()
        return self.known_path()

    def required_path(self) -> str:
        """Return the path; fail if the program is unavailable."""
        found = self.path()
        if found is None:
            reason = self._failure.read_text(encoding="utf-8") if self.has_failed() else "not in the package"
            raise AssertionError(
                f"{self.name} is neither on the PATH nor available from Debian: {reason}; install it, "
                f"or delete {self._folder} to fetch it again"
            )
        return found

    def has_failed(self) -> bool:
        """Return whether the package could not be fetched."""
        return self._failure.exists()

    def _fetch(self) -> None:
        """Fetch the package with separate package lists: neither root nor the machine's lists are needed."""
        folder = {name: str(self._folder / name) for name in ("lists", "archives")}
        own = [
            f"Dir::State::lists={folder['lists']}",
            f"Dir::Cache={folder['archives']}",
            "APT::Sandbox::User=",
            "Debug::NoLocking=1",
        ]
        options = [word for one in own for word in ("-o", one)]
        for made in folder.values():
            (Path(made) / "partial").mkdir(parents=True, exist_ok=True)
        try:
            for step in (
                ["apt-get", *options, "update"],
                ["apt-get", *options, "download", self.package],
                ["sh", "-c", "dpkg-deb -x *.deb ."],
            ):
                subprocess.run(step, cwd=self._folder, check=True, capture_output=True, timeout=_SECONDS)
            self._read_data_from_working_directory()
        except (OSError, subprocess.SubprocessError) as error:
            self._failure.write_text(str(error), encoding="utf-8")
        others = ("etc", "lib", "var", *(() if self.data else ("usr/share",)))
        for made in (*folder.values(), *(str(self._folder / name) for name in others)):
            shutil.rmtree(made, ignore_errors=True)
        for package in self._folder.glob("*.deb"):
            package.unlink()

    def _read_data_from_working_directory(self) -> None:
        """Replace the path in the program by a relative one of the same length: `.` and slashes."""
        if self.data:
            path, file = self.data.encode(), self._folder / "usr/bin" / self.name
            file.write_bytes(file.read_bytes().replace(path, b".".ljust(len(path), b"/")))


PROMETHEUS: Final = DebianProgram("prometheus", "prometheus")
PROMTOOL: Final = DebianProgram("promtool", "prometheus")
ALERTMANAGER: Final = DebianProgram(
    "prometheus-alertmanager", "prometheus-alertmanager", data="/usr/share/prometheus/alertmanager"
)
