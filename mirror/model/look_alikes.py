"""Rejects names that can be mistaken for other names. Pure.

New names must be in Unicode's NFKC form and use letters of one script, so that no two names differ only by
look-alike letters. Stored names are not affected.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from mirror.errors import InvalidRequest
from mirror.model.bounds import shown

_EAST_ASIAN: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"})
"""Scripts that names commonly mix."""
_MARKS: Final = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
"""Unicode script names of combining marks, which belong to no script."""
_ESCAPE: Final = re.compile("%[0-9A-Fa-f]{2}")
_FORMULA: Final = ("=", "+", "@")
_ADVICE: Final = "use letters of one script, digits, dots, underscores and dashes"


def check_look(name: str, role: str) -> None:
    """Raise InvalidRequest for a new name that can be mistaken for another name, a formula or an escaped
    path."""
    if reason := _reason_against(name):
        raise InvalidRequest(f"{shown(name)} cannot be the name of {role}: {reason}", advice=_ADVICE)


def _reason_against(name: str) -> str:
    if unicodedata.normalize("NFKC", name) != name:
        return "not in NFKC form"
    if _MARKS.search(name):
        return "combining marks"
    scripts = {_script_of(letter) for letter in name if unicodedata.category(letter).startswith("L")}
    if len(scripts) > 1:
        return f"mixed letters of {' and '.join(sorted(scripts))}"
    if _ESCAPE.search(name):
        return "percent-encoded characters"
    if name.startswith(_FORMULA):
        return f"starts with {name[0]}"
    return ""


def _script_of(letter: str) -> str:
    """Return the script of a letter, which is the first word of its Unicode name."""
    script = unicodedata.name(letter, "UNKNOWN").partition(" ")[0]
    return "EAST ASIAN" if script in _EAST_ASIAN else script
