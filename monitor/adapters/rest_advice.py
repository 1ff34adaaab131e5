"""The advice to size the service, as `/v1/advice` has it."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from pydantic import TypeAdapter, ValidationError

from mirror.errors import DamagedState, NotFound
from mirror.model.sizing.advice import Advice
from mirror.wording import counted
from monitor.ports import Rest

_ADVICE: Final = TypeAdapter(Advice)
_FIELDS: Final = frozenset(one.name for one in fields(Advice))


class RestAdvice:
    """Asks one instance; any instance will do."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    def __call__(self) -> Advice | None:
        """Return the newest advice; None where there is none. Raises Unreachable, DamagedState."""
        try:
            answer = self._rest.get("/v1/advice")
        except NotFound:
            return None
        if answer.get("computed_ms") is None:
            return None
        try:
            return _ADVICE.validate_python({name: one for name, one in answer.items() if name in _FIELDS})
        except ValidationError as error:
            wrong = counted(error.error_count(), "field is", "fields are")
            raise DamagedState(f"the advice cannot be read: {wrong} wrong") from error
