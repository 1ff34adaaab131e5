"""Checks whether datastreams can be copied: routes and destinations. Used by the leader's thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from mirror.bulkheads import Bulkhead
from mirror.coordination.partition_selection import hidden_topics
from mirror.coordination.routes.routes import RouteVerdict, in_words
from mirror.errors import InvalidRequest
from mirror.instance.discovery.route_map import written_by
from mirror.instance.discovery.topic_discovery import TopicDiscovery
from mirror.instance.problem_board import ProblemBoard
from mirror.loggers import get_logger
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName
from mirror.model.plan import Plan
from mirror.model.reasons import reason_of
from mirror.wording import counted

_log = get_logger(__name__)


class DatastreamReadiness:
    """Checks routes, prepares destinations, and reports the problems found to the problem board.

    `through`: errors that end the tick, not only the step of one datastream. `wake`: starts the next tick
    immediately.
    """

    def __init__(
        self,
        discovery: TopicDiscovery,
        board: ProblemBoard,
        through: tuple[type[Exception], ...],
        wake: Callable[[], None],
    ) -> None:
        self._discovery = discovery
        self._board = board
        self._through = through
        self._wake = wake
        self._verdict = RouteVerdict({}, {})

    def refused(self, judge: Callable[[], RouteVerdict]) -> Mapping[DatastreamName, str]:
        """Map each datastream that must not be mirrored to the reason. If `judge` fails, reuse its last
        result."""
        log = partial(_log.exception, "check of datastreams failed")
        with Bulkhead(lambda error: log(reason=reason_of(error)), through=self._through):
            self._verdict = judge()
        for name, remark in self._verdict.remarks.items():
            self._board.remark(remark, name)
        for name, reason in self._verdict.refused.items():
            self._board.note(InvalidRequest(reason), name)
        return self._verdict.refused

    def prepare(self, datastreams: Sequence[Datastream], plan: Plan) -> dict[DatastreamName, str]:
        """Prepare the destinations of datastreams. Map each datastream to a sentence about its state."""
        sentences = {}
        for datastream in datastreams:
            remaining = self._discovery.preparations.remaining(datastream)
            missing = counted(remaining, "destination topic")
            what = f"{missing} not created yet" if remaining else "a cluster has not responded yet"
            sentences[datastream.name] = f"{datastream.status}; {what}"
            with self._board.guarding(datastream.name):
                sentences[datastream.name] = self._prepare(datastream, plan)
        return sentences

    def _prepare(self, datastream: Datastream, plan: Plan) -> str:
        discovery, group = self._discovery, datastream.group
        for work in discovery.prepare_destination(datastream, lambda: written_by(plan).get(group, ())):
            _log.info(
                "destination topic created" if work.create else "destination topic extended",
                datastream=datastream.name,
                topic=work.topic.name,
                partitions=work.topic.partitions,
                cluster=work.cluster,
            )
        if remaining := discovery.preparations.remaining(datastream):
            _log.info("destination topics remaining", datastream=datastream.name, topics=remaining)
            self._wake()
        short = {topic: found.reason for topic, found in discovery.shortfalls(datastream).items()}
        reasons = {**short, **self._verdict.reasons(datastream.name)}
        if reasons:
            raise InvalidRequest(in_words(reasons))
        if hidden := discovery.hidden(datastream):
            raise hidden_topics(datastream.source, hidden)
        if objection := discovery.objection(datastream):
            self._board.remark(objection, datastream.name)
        for text in discovery.remarks(datastream):
            self._board.remark(text, datastream.name)
        differing = discovery.drift(datastream)
        suffix = (
            f"; {counted(len(differing), 'setting differs or is', 'settings differ or are')} unknown"
            f" at the destination: {differing[0]}"
            if differing
            else ""
        )
        return f"{datastream.status}{suffix}"
