"""Names that can be taken for another one. Pure.

New names are in Unicode's form NFKC and in the letters of one script, so that none differs from another only
by letters that look alike. What is stored already keeps its name.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from mirror.errors import InvalidRequest
from mirror.model.bounds import shown

_EAST_ASIAN: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"})
"""Scripts that are written together."""
_MARKS: Final = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
"""Marks that belong to no script."""
_ESCAPE: Final = re.compile("%[0-9A-Fa-f]{2}")
_FORMULA: Final = ("=", "+", "@")
_ADVICE: Final = "use letters of one script, digits, dots, underscores and dashes"


def check_look(name: str, role: str) -> None:
    """Raises InvalidRequest for a new name that can be taken for another one, or for a formula or an escaped
    path where it is shown."""
    if reason := _reason_against(name):
        raise InvalidRequest(f"{shown(name)} cannot name {role}: {reason}", advice=_ADVICE)


def _reason_against(name: str) -> str:
    if unicodedata.normalize("NFKC", name) != name:
        return "it is not in the form NFKC"
    if _MARKS.search(name):
        return "it has combining marks"
    scripts = {_script_of(letter) for letter in name if unicodedata.category(letter).startswith("L")}
    if len(scripts) > 1:
        return f"it mixes letters of {' and '.join(sorted(scripts))}"
    if _ESCAPE.search(name):
        return "it has percent-encoded characters"
    if name.startswith(_FORMULA):
        return f"it begins with {name[0]}"
    return ""


def _script_of(letter: str) -> str:
    """Return the script as the letter's name begins with it."""
    script = unicodedata.name(letter, "UNKNOWN").partition(" ")[0]
    return "EAST ASIAN" if script in _EAST_ASIAN else script
