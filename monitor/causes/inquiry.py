"""Asks why datastreams are late, and not more often than is needed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import structlog

from mirror.errors import HeadraceError
from mirror.model.identifiers import DatastreamName
from monitor.causes.diagnosis import Cause, Diagnosis
from monitor.causes.evidence import Evidence
from monitor.causes.judge import diagnose

_log = structlog.get_logger(__name__)

LEAST_SECONDS: Final = 5.0
"""Between two questions about a datastream: lanes report about so often, by default."""
MOST_QUESTIONS: Final = 10
"""Of a turn. Each makes every instance say what lanes of one group do, and a dead one is waited for: the
others' turn comes, as who was asked lately is not asked again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`diagnosis`: None while there is none; `failure`: why the evidence could not be read, or empty.
    `is_news`: another cause than was found before."""

    diagnosis: Diagnosis | None = None
    failure: str = ""
    is_news: bool = False

    @property
    def sentence(self) -> str:
        """The cause, or why it is not known."""
        if self.diagnosis is not None:
            return self.diagnosis.sentence
        return f"cause not known: {self.failure}" if self.failure else ""


NO_ANSWER: Final = Answer()


@dataclass(frozen=True, slots=True)
class _Asked:
    asked_at: float
    answer: Answer


class Inquiry:
    """Used by one thread. What was found of a datastream counts until it is looked at again, or is well."""

    def __init__(self) -> None:
        self._known: dict[DatastreamName, _Asked] = {}
        self._causes: dict[DatastreamName, Cause] = {}
        self._left = MOST_QUESTIONS

    def begin(self, late: Collection[DatastreamName]) -> None:
        """A turn begins; the others are not late any more."""
        self._left = MOST_QUESTIONS
        self._known = {name: one for name, one in self._known.items() if name in late}
        self._causes = {name: one for name, one in self._causes.items() if name in late}

    def look(self, name: DatastreamName, ask: Callable[[], Evidence], limit_ms: float, now: float) -> Answer:
        """Why it is late. `now`: monotonic seconds."""
        known = self._known.get(name)
        if known is not None and (now - known.asked_at < LEAST_SECONDS or not self._left):
            return Answer(known.answer.diagnosis, known.answer.failure)
        if not self._left:
            return Answer(failure="others are looked at first")
        self._left -= 1
        try:
            found = diagnose(ask(), limit_ms)
        except HeadraceError as error:
            _log.warning("cause not known", datastream=name, reason=str(error))
            answer = Answer(failure=str(error))
        else:
            answer = Answer(found, is_news=self._causes.get(name) is not found.cause)
            self._causes[name] = found.cause
        self._known[name] = _Asked(now, answer)
        return answer
