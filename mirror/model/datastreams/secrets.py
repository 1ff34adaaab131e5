"""Detects secrets in definitions, which the coordination store contains in plain text.

Secrets that older versions have stored are redacted in all output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mirror.model.bounds import shown

_SEPARATORS: Final = re.compile(r"[^a-z0-9]")
_KEYS: Final = re.compile(
    r"password|passwd|passphrase|secret|credential|jaasconfig|privatekey|apikey|accesskey|keystorekey"
    r"|userinfo|(?:bearer|access|auth|refresh|api|id|oauth|sas|session|security)token$|^token$"
)
"""Pattern for keys in lower case without separators: `ssl.key.password`, `API_KEY`,
`basic.auth.user.info`."""
_VALUES: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|LoginModule\s|\b(?:password|passwd|secret)\s*=|://[^\s/:@]*:[^\s/@]+@",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"\$\{[^{}]*\}")
"""Reference to a Kafka configuration provider: `${file:/run/secrets/kafka:password}`."""
REDACTED: Final = "[redacted]"
"""Placeholder for a stored secret. In a request, it stands for the stored value."""


def holds_secret(key: str, value: str) -> bool:
    """Return whether a metadata key or its value looks like a secret. The placeholder `REDACTED` counts as a
    secret; an empty value and a reference to a secret do not."""
    if not value.strip() or _REFERENCE.fullmatch(value.strip()):
        return False
    if value == REDACTED:
        return True
    return bool(_KEYS.search(_SEPARATORS.sub("", key.lower())) or _VALUES.search(value))


def secret_problem(key: str) -> str:
    """Return the reason to reject a metadata key that looks like a secret."""
    return f"metadata {shown(key)} looks like a secret, and definitions are stored unencrypted"


def without_secrets(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata with redacted secrets, for display, logs and comparisons."""
    return {key: REDACTED if holds_secret(key, value) else value for key, value in metadata.items()}


def kept_secrets(given: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata of a request, with each placeholder replaced by the stored secret."""
    return {
        key: present[key]
        if value == REDACTED and key in present and holds_secret(key, present[key])
        else value
        for key, value in given.items()
    }
