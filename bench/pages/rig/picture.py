"""Screenshots small enough for docs/."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Page

MOST_BYTES: Final = 150_000
_LEAST_HEIGHT: Final = 400
_MARGIN: Final = 16
_ENDS: Final = """() => [...document.querySelectorAll('main section, main table tbody tr, main li')]
  .map((one) => one.getBoundingClientRect().bottom)"""
"""Script that returns the lower ends of the cards, rows and entries of a page."""


def screenshot(page: Page) -> bytes:
    """Return a picture of the page that ends below its last card or row within the viewport."""
    size = page.viewport_size
    assert size is not None
    ends = [one + _MARGIN for one in page.evaluate(_ENDS)]
    height = max((end for end in ends if _LEAST_HEIGHT <= end <= size["height"]), default=size["height"])
    area = {"x": 0.0, "y": 0.0, "width": float(size["width"]), "height": float(height)}
    return page.screenshot(animations="disabled", clip=area)  # type: ignore[arg-type] # a FloatRect


def keep(png: bytes, file: Path) -> int:
    """Write a screenshot with a palette, since pages have few colours. Returns its size in bytes.

    Raises SystemExit if it exceeds `MOST_BYTES`.
    """
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        picture.convert("RGB").quantize(128).save(buffer, "PNG", optimize=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(buffer.getvalue())
    if buffer.tell() > MOST_BYTES:
        raise SystemExit(f"{file} exceeds {MOST_BYTES:,} bytes")
    return buffer.tell()
