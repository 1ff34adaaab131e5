"""Writes audit lines to the log: the change, the state before and after, the requester and the remote
address."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import structlog

from mirror.control.caller import Caller
from mirror.coordination.stores.definition_document import to_document
from mirror.errors import legible
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.secrets import without_secrets
from mirror.model.documents import differences
from mirror.model.identifiers import DatastreamName

_log = structlog.get_logger(__name__)
AUDIT: Final = "audit"
"""Event name of all audit lines."""
SERVICE: Final = Caller("headrace", "service")
"""Caller of changes that the leader makes on its own. Tokens and certificates cannot have this role."""
MONITOR: Final = Caller("monitor", "service")
"""Name of the caller in audit lines for changes that the monitor makes."""
_VALUE_SHOWN: Final = 2_000


def audit(
    action: str,
    name: DatastreamName,
    caller: Caller,
    before: Datastream | None,
    after: Datastream | None,
    requested_by: str = "",
    reason: str = "",
) -> None:
    """Write an audit line with the old and new values of changed fields.

    For a creation or a removal, logs all fields.
    """
    was, becomes = (shown_document(version) if version else {} for version in (before, after))
    changes = list(differences(was, becomes))
    _log.info(
        AUDIT,
        action=action,
        datastream=legible(name),
        principal=caller.name or "not asked",
        role=caller.role,
        remote=caller.remote,
        call=caller.request_id,
        requested_by=legible(requested_by),
        reason=legible(reason),
        before=_values([(change.pointer, change.before) for change in changes] if before else []),
        after=_values([(change.pointer, change.after) for change in changes] if after else []),
    )


def shown_document(datastream: Datastream) -> dict[str, Any]:
    """Return a definition without secrets, to be logged or printed."""
    return {**to_document(datastream), "metadata": without_secrets(datastream.metadata)}


def _values(fields: Sequence[tuple[str, Any]]) -> dict[str, str]:
    """Return the values of fields as text, by JSON pointer. Long values are truncated."""
    return {legible(pointer): legible(json.dumps(value), _VALUE_SHOWN) for pointer, value in fields}
