"""What must not lie in a definition, which is stored in ZooKeeper. Where a former version has stored some, it
is shown to nobody."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SEPARATORS: Final = re.compile(r"[^a-z0-9]")
_KEYS: Final = re.compile(
    r"password|passwd|passphrase|secret|credential|jaasconfig|privatekey|apikey|accesskey|keystorekey"
    r"|userinfo|(?:bearer|access|auth|refresh|api|id|oauth|sas|session|security)token$|^token$"
)
"""Of a key in lower case without separators: `ssl.key.password`, `API_KEY`, `basic.auth.user.info`."""
_VALUES: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|LoginModule\s|\b(?:password|passwd|secret)\s*=|://[^\s/:@]*:[^\s/@]+@",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"\$\{[^{}]*\}")
"""As Kafka's configuration providers write one: `${file:/run/secrets/kafka:password}`."""
REDACTED: Final = "[redacted]"
"""Shown for a secret that is stored. In a request it stands for what is stored."""


def holds_secret(key: str, value: str) -> bool:
    """Whether a key of the metadata reads as one that holds a secret, or its value as a secret. A reference
    to one is none, nor is an empty value. What stands for a secret reads as one."""
    if not value.strip() or _REFERENCE.fullmatch(value.strip()):
        return False
    if value == REDACTED:
        return True
    return bool(_KEYS.search(_SEPARATORS.sub("", key.lower())) or _VALUES.search(value))


def without_secrets(metadata: Mapping[str, str]) -> dict[str, str]:
    """As it is shown, logged and compared for people."""
    return {key: REDACTED if holds_secret(key, value) else value for key, value in metadata.items()}


def kept_secrets(given: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """What somebody sends back who was shown `present`: the secrets in it stay as they are."""
    return {
        key: present[key]
        if value == REDACTED and key in present and holds_secret(key, present[key])
        else value
        for key, value in given.items()
    }
