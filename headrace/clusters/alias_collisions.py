"""Detects cluster aliases that map to the same name in environment variables."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.settings import HeadraceSettings, as_variable


def alias_collisions(settings: HeadraceSettings) -> Iterator[str]:
    """Yield a warning for each set of aliases that map to the same name in environment variables."""
    for section, aliases in (("clusters", settings.clusters), ("pmp.clusters", settings.pmp.clusters)):
        by_name: dict[str, list[str]] = {}
        for alias in aliases:
            by_name.setdefault(as_variable(alias), []).append(alias)
        for name, several in sorted(by_name.items()):
            if len(several) > 1:
                named = " and ".join(map(repr, sorted(several)))
                yield (
                    f"SAME NAME: {section}: {named} share the name {name.upper()} in environment variables,"
                    " so"
                    " such variables are rejected; rename an alias, or use password_file"
                )
