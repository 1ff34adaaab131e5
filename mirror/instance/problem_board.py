"""Problems of individual datastreams that the leader finds.

Problems are collected during a tick, stored for all instances, reported in health, and returned as events.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from mirror.coordination.stores import znodes
from mirror.coordination.stores.events import problem_event
from mirror.coordination.stores.problems import Problem, ProblemStore, TroubleStore
from mirror.errors import HeadraceError
from mirror.instance.background_calls import CallPending
from mirror.instance.health import Health
from mirror.loggers import get_logger
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName, GroupName, InstanceName
from mirror.model.metrics import PlacementEvent
from mirror.model.reasons import legible, reason_of
from mirror.ports import Clock

_log = get_logger(__name__)
_NOTHING: Final[Mapping[DatastreamName, Problem]] = {}
_MOST_PUBLISHED: Final = 5
"""Maximum number of reasons of one problem that are published as events."""
_ALTERNATING: Final = 5
"""Number of recently logged reasons of a datastream that are not logged again."""
_NUMBER: Final = re.compile(r"\d+")
_READ_AGAIN_SECONDS: Final = 60.0
"""Interval at which stored problems are read again, because a former leader may have written late."""


class ProblemBoard:
    """Collects the problems of datastreams during a tick. Used by the leader's thread. Any thread may read
    `problems`.

    A tick starts with `begin` and ends with `settle`. In between, the leader runs each step for a datastream
    within `guarding`, or reports its failure with `note`. After a failed tick, the result of the previous
    tick remains.
    """

    def __init__(self, store: ProblemStore, health: Health, clock: Clock) -> None:
        self._store = store
        self._health = health
        self._clock = clock
        self._stored: Mapping[DatastreamName, Problem] | None = None
        self._read_at = 0.0
        self._found: dict[DatastreamName, str] = {}
        self._remarks: dict[DatastreamName, str] = {}
        self._mentions: dict[DatastreamName, str] = {}
        self._unclear: set[DatastreamName] = set()
        self._logged: dict[DatastreamName, deque[str]] = {}
        self._published: dict[DatastreamName, list[str]] = {}
        self._parts: set[str] = set()

    @property
    def problems(self) -> Mapping[DatastreamName, Problem]:
        """Problems found by the last tick, while this instance leads."""
        return self._stored or _NOTHING

    def begin(self) -> None:
        """Start a tick without any problems."""
        now = self._clock.monotonic()
        if self._stored is None or now - self._read_at >= _READ_AGAIN_SECONDS:
            self._stored, self._read_at = dict(self._store.all()), now
        self._found = {}
        self._remarks = {}
        self._mentions = {}
        self._unclear = set()

    @contextmanager
    def guarding(self, *names: DatastreamName, through: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Run a step of the tick for these datastreams. An exception excludes them from planning. `through`:
        exceptions to raise instead."""
        try:
            yield
        except through:
            raise
        except CallPending:
            self._unclear.update(names)
        except Exception as error:  # noqa: BLE001 - bulkhead around one datastream's step
            self.note(error, *names)

    def note(self, error: Exception, *names: DatastreamName) -> None:
        """Exclude datastreams from planning because of an error. Each keeps only its first reason in a tick.

        An unexpected exception is logged once with its traceback. A reason is not logged again if only its
        numbers have changed, or if it alternates with a few others.
        """
        reason = reason_of(error)
        shape = _shape(reason)
        for name in names:
            if name in self._found:
                continue
            self._found[name] = reason
            logged = self._logged.setdefault(name, deque(maxlen=_ALTERNATING))
            if shape not in logged:
                trace = None if isinstance(error, HeadraceError) else error
                _log.error("datastream excluded", datastream=legible(name), reason=reason, exc_info=trace)
                logged.append(shape)

    def note_troubles(
        self,
        troubles: TroubleStore,
        groups: Mapping[GroupName, Sequence[Datastream]],
        is_preparing: Callable[[Datastream], bool],
    ) -> None:
        """Add warnings for the groups with stalled lanes that instances report. Lanes without a topic are not
        stalled while the destination topics of their group are being created."""
        late = {
            group: reason
            for group, reason in troubles.of(znodes.NO_TOPICS).items()
            if not any(map(is_preparing, groups.get(group, ())))
        }
        for group, reason in {**late, **troubles.of(znodes.TROUBLES)}.items():
            self.note(HeadraceError(reason), *(member.name for member in groups.get(group, ())))
        for group, reason in troubles.of(znodes.QUOTAS).items():
            self.mention(reason, *(member.name for member in groups.get(group, ())))

    def remark(self, text: str, name: DatastreamName) -> None:
        """Add a warning to a datastream, which is planned nevertheless."""
        former = self._remarks.get(name)
        self._remarks[name] = text if former is None else f"{former}; {text}"

    def mention(self, text: str, *names: DatastreamName) -> None:
        """Add a warning that depends on the current traffic. Shown after other warnings, and only for planned
        datastreams. Not published as an event."""
        self._mentions.update(dict.fromkeys(names, text))

    def settle(
        self,
        sentences: Mapping[DatastreamName, str],
        me: InstanceName,
        publish: Callable[[tuple[PlacementEvent, ...]], None],
    ) -> None:
        """End a tick: store the problems, report new and ended problems, and update health.

        `sentences`: health messages of datastreams without problems. Raises Unreachable and
        CoordinationError; the next tick then completes the work.
        """
        shown = self._stored or _NOTHING
        before = {name: problem for name, problem in shown.items() if problem.is_told}
        now_ms = self._clock.now_ms()
        found = {
            name: Problem(reason, before[name].since_ms if name in before else now_ms, name in self._found)
            for name, reason in sorted({**self._remarks, **self._found}.items())
        }
        for name in self._unclear & before.keys() - found.keys():
            found[name] = before[name]
        news = [name for name in found if self._is_news(found[name], name, before.get(name))]
        began = [problem_event(me, name, found[name], now_ms) for name in news]
        ended = [
            problem_event(me, name, before[name], now_ms, is_over=True)
            for name in sorted(before.keys() - found.keys())
        ]
        if began or ended:
            publish((*began, *ended))
        for name in news:
            self._published.setdefault(name, []).append(_shape(found[name].reason))
        for name in before.keys() - found.keys():
            self._logged.pop(name, None)
            self._published.pop(name, None)
            _log.info("datastream no longer excluded", datastream=legible(name))
        for name, text in sorted(self._mentions.items()):
            remark = found.get(name)
            if remark is None:
                since_ms = shown[name].since_ms if name in shown.keys() - before.keys() else now_ms
                found[name] = Problem(text, since_ms, sets_aside=False, is_told=False)
            elif not remark.sets_aside:
                found[name] = replace(remark, reason=f"{remark.reason}; {text}")
        self._keep(found, shown)
        self._show({**{name: (True, text) for name, text in sentences.items()}, **_sentences(found.items())})

    def _keep(
        self, found: Mapping[DatastreamName, Problem], stored: Mapping[DatastreamName, Problem]
    ) -> None:
        self._stored = None  # after a failed write the stored state is unknown
        self._store.remove_each(sorted(stored.keys() - found.keys()))
        self._store.put_each(
            {name: problem for name, problem in found.items() if stored.get(name) != problem}
        )
        self._stored = found

    def resign(self) -> None:
        """Drop all problems after losing leadership."""
        self._stored = None
        self._logged = {}
        self._published = {}
        self._show({})

    def _is_news(self, problem: Problem, name: DatastreamName, before: Problem | None) -> bool:
        """Return whether the reason of a problem is published as an event.

        The first reason of a problem is published, and a few later reasons that differ in more than numbers,
        each once, so that alternating reasons do not cause many events.
        """
        if before is None:
            return True
        published = self._published.setdefault(name, [_shape(before.reason)])
        return _shape(problem.reason) not in published and len(published) < _MOST_PUBLISHED

    def _show(self, sentences: Mapping[DatastreamName, tuple[bool, str]]) -> None:
        parts = {f"datastream {legible(name)}": text for name, text in sentences.items()}
        for part in self._parts - parts.keys():
            self._health.forget(part)
        for part, (is_well, sentence) in parts.items():
            self._health.report(part, is_well, sentence)
        self._parts = set(parts)


def _shape(reason: str) -> str:
    return _NUMBER.sub("0", reason)


def _sentences(problems: Iterable[tuple[DatastreamName, Problem]]) -> dict[DatastreamName, tuple[bool, str]]:
    return {name: (not problem.sets_aside, problem.reason) for name, problem in problems}
