"""Screenshots small enough for docs/."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

from PIL import Image

MOST_BYTES: Final = 150_000


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
