"""The planted faults, listed in TOML files: one file per room of the product."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

ROOT: Final = Path(__file__).parents[2]
_LISTS: Final = Path(__file__).with_name("faults")


class Fault(BaseModel):
    """A mistake that a careful engineer could make and the tests must find.

    `original` occurs exactly once in `file` and becomes `replacement`. `breaks`: the damage to a user.
    `tests`: test files expected to find it; they run first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern="^[a-z]+(-[a-z]+)+$")
    room: str
    file: str
    original: str = Field(min_length=1)
    replacement: str
    breaks: str = Field(pattern=r"\.$")
    tests: tuple[str, ...] = Field(min_length=1)

    @property
    def wing(self) -> str:
        """Top-level package of the changed file."""
        return self.file.partition("/")[0]

    def planted_in(self, source: str) -> str:
        """Return the source with the fault. Raises ValueError unless the original text occurs exactly once,
        SyntaxError if the result does not compile."""
        if (found := source.count(self.original)) != 1:
            raise ValueError(f"{self.id}: the original text occurs {found} times in {self.file}, not once")
        changed = source.replace(self.original, self.replacement)
        compile(changed, self.file, "exec")
        return changed


def listed_faults() -> tuple[Fault, ...]:
    """Read all lists, sorted by room. Raises ValidationError for a malformed entry."""
    return tuple(
        Fault.model_validate({**entry, "room": path.stem})
        for path in sorted(_LISTS.glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["fault"]
    )
