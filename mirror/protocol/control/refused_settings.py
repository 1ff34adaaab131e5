"""Finds the rejected setting in the error message of a failed topic creation. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mirror.protocol.codes import Code

_ABOUT_SETTINGS: Final = frozenset({Code.INVALID_CONFIG, Code.POLICY_VIOLATION})
_BOUND: Final = re.compile(r"must be (?:at least|no more than) (-?[0-9]+)")
"""Matches the error messages of `ConfigDef.Range` in Kafka."""


def adjusted_setting(error: int, message: str, settings: Mapping[str, str]) -> tuple[str, str | None] | None:
    """Return the rejected setting and the nearest accepted value, or None.

    A value of None means that the setting must be omitted. The result is None if the error is not about any
    of `settings`.
    """
    if error not in _ABOUT_SETTINGS:
        return None
    places = {key: at for key in settings if (at := _place(key, message)) >= 0}
    if not places:
        return None
    key = min(places, key=places.__getitem__)
    bound = _BOUND.search(message)
    value = bound[1] if bound is not None and len(places) == 1 else None
    return key, None if value == settings[key] else value


def _place(key: str, message: str) -> int:
    found = re.search(rf"(?<![\w.]){re.escape(key)}(?!\.?\w)", message)
    return -1 if found is None else found.start()
