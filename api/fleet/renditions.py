"""Datastreams as JSON text, made once of each definition: a list of thousands is put together of them."""

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
    """For any thread: two that render the same at once do it twice."""

    def __init__(self) -> None:
        self._known: dict[DatastreamName, _Rendition] = {}

    def of(
        self, datastream: Datastream, problem: Problem | None, planning: Assessment | None = None
    ) -> bytes:
        """The JSON of its answer. A definition that nobody has changed is the same object as before."""
        known = self._known.get(datastream.name)
        made_of = (problem, planning)
        if known is None or known.datastream is not datastream or (known.problem, known.planning) != made_of:
            text = rendered(DatastreamAnswer.from_datastream(datastream, problem, planning))
            known = _Rendition(datastream, problem, planning, text)
            if len(self._known) >= _MOST:  # of datastreams that are gone, too
                self._known = {}
            self._known[datastream.name] = known
        return known.text


def rendered(answer: DatastreamAnswer) -> bytes:
    """The JSON of one answer."""
    return bytes(LegibleJson(answer.model_dump(mode="json")).body)
