"""Stores the sizing advice in the coordination store.

Every instance can return it over REST, and a new leader starts with it.
"""

from __future__ import annotations

import sys
from typing import Final

from pydantic import TypeAdapter, ValidationError

from mirror.coordination.stores import node_codec, znodes
from mirror.errors import DamagedState, InvalidRequest, NotFound
from mirror.loggers import get_logger
from mirror.model import bounds
from mirror.model.capacity.advice import Advice
from mirror.model.documents import LARGEST
from mirror.ports import NodeStore
from mirror.wording import counted

_log = get_logger(__name__)
_ADVICE: Final = TypeAdapter(Advice)
_FORMAT: Final = 1


class AdviceStore:
    """Stores the advice in one node. Only the leader writes."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes

    def read(self) -> Advice | None:
        """Return the latest advice, or None if it is missing or unreadable. Raises Unreachable."""
        try:
            document = node_codec.decode_chunks([self._nodes.read(znodes.ADVICE).data], znodes.ADVICE)
        except NotFound:
            return None
        except DamagedState as error:
            _log.warning("stored sizing advice ignored", reason=error.message)
            return None
        if document.get("format") != _FORMAT:
            return None
        try:
            found = _ADVICE.validate_python(document.get("advice"))
            _check_values(_ADVICE.dump_python(found))
        except ValidationError as error:
            _log.warning(
                "stored sizing advice ignored",
                reason=f"{counted(error.error_count(), 'field is', 'fields are')} invalid",
            )
        except InvalidRequest as error:
            _log.warning("stored sizing advice ignored", reason=error.message)
        else:
            return found
        return None

    def put(self, advice: Advice) -> None:
        """Store the sizing advice, replacing the previous one.

        Raises VersionConflict, Unreachable; InvalidRequest if the advice does not fit in a znode.
        """
        document = {"format": _FORMAT, "advice": _ADVICE.dump_python(advice, mode="json")}
        data, *further = node_codec.encode_chunks(document)
        if further:
            raise InvalidRequest("the sizing advice is too large for a node", advice="shorten the forecast")
        znodes.put(self._nodes, znodes.ADVICE, data)


def _check_values(value: object) -> None:
    """Raise InvalidRequest for an invalid number or an unprintable text in stored advice."""
    match value:
        case dict():
            for item in value.values():
                _check_values(item)
        case list() | tuple():
            for item in value:
                _check_values(item)
        case int():
            bounds.integer("a number of the advice", value, 0, bounds.LARGEST_MS)
        case float():
            bounds.number("a number of the advice", value, 0, sys.float_info.max)
        case str():
            bounds.text("a text of the advice", value, LARGEST)
