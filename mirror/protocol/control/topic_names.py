"""Checks the topic names that a cluster lists, because brokers are not trusted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mirror.loggers import get_logger
from mirror.model.bounds import shown
from mirror.model.topics import is_legal_topic

_log = get_logger(__name__)
_NAMES_SHOWN: Final = 3


class TopicNames:
    """Filter for the topic names of one cluster.

    `illegal`: maximum number of illegal names in one response.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self.illegal = 0

    def legal(self, names: Iterable[str]) -> set[str]:
        """Return the topic names that Kafka allows. Counts illegal names, and logs the first."""
        given = list(names)
        legal = {name for name in given if is_legal_topic(name)}
        illegal = [name for name in given if name not in legal]
        if illegal and not self.illegal:
            count, first = len(illegal), [shown(name) for name in illegal[:_NAMES_SHOWN]]
            _log.warning("illegal topic names ignored", cluster=self._cluster, topics=count, first=first)
        self.illegal = max(self.illegal, len(illegal))
        return legal
