"""Chromium for tests: headless, with bundled libraries and fonts, so that images are the same everywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import matplotlib
from playwright.sync_api import Browser, ViewportSize, sync_playwright

from tests.browser.packages import executable
from tests.patience import PATIENCE_SECONDS

WIDE: Final[ViewportSize] = {"width": 1280, "height": 860}
PHONE: Final[ViewportSize] = {"width": 390, "height": 844}
_FONTS: Final = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{fonts}</dir><cachedir>{folder}/font-cache</cachedir>
<match target="pattern"><test name="family"><string>monospace</string></test>
<edit name="family" mode="assign" binding="strong"><string>DejaVu Sans Mono</string></edit></match>
<match target="pattern"><edit name="family" mode="append_last"><string>DejaVu Sans</string></edit></match>
</fontconfig>
"""
_ARGUMENTS: Final = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
"""Chromium draws without a GPU: an emulated one takes twice the processor time."""


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """Run one browser within the context."""
    file = executable()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=file,
            args=list(_ARGUMENTS),
            env=_environment(file.parent),
            timeout=PATIENCE_SECONDS * 1000,
        )
        try:
            yield browser
        finally:
            browser.close()


def _environment(folder: Path) -> dict[str, str | float | bool]:
    """Return the environment of the process.

    This build exits when it looks for a glyph that no font has. The settings name the folder of the checkout,
    which may have been moved since they were written.
    """
    settings = folder / "fonts.conf"
    wanted = _FONTS.format(fonts=Path(matplotlib.get_data_path()) / "fonts" / "ttf", folder=folder)
    if not settings.exists() or settings.read_text(encoding="utf-8") != wanted:
        draft = folder / f"fonts.conf.{os.getpid()}"
        draft.write_text(wanted, encoding="utf-8")
        draft.replace(settings)
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(folder),
        "LANG": "en_US.UTF-8",
        "LD_LIBRARY_PATH": str(folder / "al2023" / "lib"),
        "FONTCONFIG_FILE": str(settings),
    }
