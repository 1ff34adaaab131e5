"""Cache of datastreams as JSON text, from which a list of thousands is assembled."""

from __future__ import annotations

from typing import Final, NamedTuple

from api.errors import LegibleJson
from api.schemas.datastreams import DatastreamAnswer
from mirror.coordination.stores.problems import Problem
from mirror.instance.loads.assessments import Assessment
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName

_MOST: Final = 50_000


class _Rendition(NamedTuple):
    datastream: Datastream
    problem: Problem | None
    planning: Assessment | None
    text: bytes


class Renditions:
    """Cache of rendered definitions. Thread-safe; concurrent calls may render the same definition twice."""

    def __init__(self) -> None:
        self._known: dict[DatastreamName, _Rendition] = {}

    def of(
        self, datastream: Datastream, problem: Problem | None, planning: Assessment | None = None
    ) -> bytes:
        """Return the JSON of a datastream. Unchanged definitions are the same object, which makes the lookup
        cheap."""
        known = self._known.get(datastream.name)
        made_of = (problem, planning)
        if known is None or known.datastream is not datastream or (known.problem, known.planning) != made_of:
            text = rendered(DatastreamAnswer.from_datastream(datastream, problem, planning))
            known = _Rendition(datastream, problem, planning, text)
            if len(self._known) >= _MOST:  # includes deleted datastreams
                self._known = {}
            self._known[datastream.name] = known
        return known.text


def rendered(answer: DatastreamAnswer) -> bytes:
    """Return the JSON of one response."""
    return bytes(LegibleJson(answer.model_dump(mode="json")).body)
