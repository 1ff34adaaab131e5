"""What must not lie in a definition, which is stored in ZooKeeper and shown to everybody who may read."""

from __future__ import annotations

import re
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


def holds_secret(key: str, value: str) -> bool:
    """Whether a key of the metadata reads as one that holds a secret, or its value as a secret. A reference
    to one is none, nor is an empty value."""
    if not value.strip() or _REFERENCE.fullmatch(value.strip()):
        return False
    return bool(_KEYS.search(_SEPARATORS.sub("", key.lower())) or _VALUES.search(value))
