"""Provides loads from Pinot to the planner, as `mirror.ports.LoadProvider`.

Each partition gets the load of its own samples. If there are none, it gets the load of the same hour of
earlier weeks, then the mean of its topic, then a configured default. Each load has a level, a rate source and
a measurement time. Reports are cached for outages of Pinot. Notes state if a report is stale or incomplete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Generic, TypeVar

from mirror.errors import HeadraceError, LoadUnavailable, NoSamples, NotFound
from mirror.loggers import get_logger
from mirror.model.identifiers import ClusterRef
from mirror.model.load import Freshness, LoadReport, PartitionLoad, RateSource, age_text
from mirror.model.topics import TopicPartition
from mirror.ports import Clock
from pinot.client import PinotClient
from pinot.partitions import load_queries as questions
from pinot.partitions.load_queries import TopicRates
from pinot.partitions.pages import Grain
from pinot.partitions.rollups import HOUR_MS
from pinot.queries import mirror_rates
from pinot.tables import Statistic
from pinot.time_range import TimeRange
from pmp.loads.completion import completed, coverage_notes, mark_notes, mismatch_notes
from pmp.loads.last_known import CachedReport, LastKnown
from pmp.loads.rates import SETTLED_MS, RateOptions, partition_loads, unit_problem
from pmp.loads.rhythm import MOST_UNKNOWN, as_held, marked, rhythm_of
from pmp.loads.seasonal import seasonal_loads
from pmp.loads.wholeness import CatchingUp, Progress, lost_rows
from pmp.settings import PmpSettings, ProviderSettings

NAME: Final = "pinot"

_log = get_logger(__name__)


@dataclass(frozen=True)
class ProviderInputs:
    """Functions and values on which the load provider depends.

    `name_of`: the name of a cluster in its samples. `compacted`: compacted topics of a cluster. `progress`:
    Pinot's progress in the samples topic, None if it cannot be queried. `unknown_bytes_per_second`: load of a
    partition whose topic has no measurements, unless the settings define it.
    """

    name_of: Callable[[ClusterRef], str] = str
    compacted: Callable[[ClusterRef], Set[str]] = lambda _: frozenset()
    progress: Progress | None = None
    unknown_bytes_per_second: float = 5_120.0


@dataclass(frozen=True)
class _FailedQuery:
    error: HeadraceError
    at_ms: int


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class _LookedUp(Generic[_Key, _Value]):
    """Rollups of `topics` that were read at `at_ms` and are reused until `until_ms` (epoch ms)."""

    topics: frozenset[str]
    found: Mapping[_Key, _Value]
    at_ms: int
    until_ms: int

    def answers(self, topics: Set[str], now_ms: int) -> bool:
        """Return whether the rollups can be reused for `topics`."""
        return topics <= self.topics and self.at_ms <= now_ms < self.until_ms


class PinotLoadProvider:
    """Load provider that reads Pinot. Implements `mirror.ports.LoadProvider`. Used by one thread."""

    def __init__(
        self, client: PinotClient, settings: PmpSettings, clock: Clock, inputs: ProviderInputs | None = None
    ) -> None:
        self._client = client
        self._settings = settings
        self._provider = settings.provider
        self._refresh_ms = int(settings.provider.refresh_seconds * 1000)
        self._clock = clock
        self._inputs = inputs or ProviderInputs()
        folder = settings.provider.cache_folder
        self._last_known = LastKnown(Path(folder) if folder else None)
        self._catching_up = CatchingUp(self._inputs.progress, clock)
        self._failures: dict[ClusterRef, _FailedQuery] = {}
        self._means: dict[ClusterRef, _LookedUp[str, TopicRates]] = {}
        self._seasonal: dict[ClusterRef, _LookedUp[TopicPartition, PartitionLoad]] = {}

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """Return the loads of the partitions over the configured time window.

        Raises LoadUnavailable if Pinot has no samples of the cluster, or if it does not respond and the last
        report is older than `provider.oldest_answer_seconds`.
        """
        now_ms = self._clock.now_ms()
        unsampled: LoadUnavailable | None = None
        try:
            known, problem = self._current(cluster, now_ms)
        except LoadUnavailable as error:
            if not self._responds(cluster):
                raise
            unsampled, known, problem = error, LoadReport({}, NAME), error.message
        seasonal: Mapping[TopicPartition, PartitionLoad] = {}
        topic_means: Mapping[str, TopicRates] = {}
        if self._responds(cluster):
            seasonal = self._estimates(cluster, known, partitions, now_ms)
            topic_means = self._topic_means(cluster, known, partitions, now_ms)
        if unsampled is not None and not seasonal and not topic_means:
            raise unsampled
        notes = list(known.notes)
        if problem:
            notes.append(problem)
        elif known.measured_at_ms is not None:
            notes += self._staleness(known.measured_at_ms, now_ms)
        answers = completed(
            known.loads,
            partitions,
            seasonal=seasonal,
            topic_means=topic_means,
            default_bytes_per_second=(
                self._provider.default_bytes_per_second or self._inputs.unknown_bytes_per_second
            ),
        )
        notes += mismatch_notes(self._inputs.name_of(cluster), known.loads, partitions)
        notes += coverage_notes(answers) + mark_notes(answers, now_ms)
        return LoadReport(answers, NAME, known.measured_at_ms, tuple(notes))

    def _responds(self, cluster: ClusterRef) -> bool:
        """Return whether the last query about the cluster returned a complete result.

        A complete response may contain no samples.
        """
        failure = self._failures.get(cluster)
        return failure is None or isinstance(failure.error, NoSamples)

    def measured(
        self, cluster: ClusterRef, at_ms: int, window_ms: int, statistic: Statistic | None = None
    ) -> LoadReport:
        """Return the rates of all partitions with samples in the `window_ms` up to `at_ms` (inclusive).

        If the window is read from rollups and `at_ms` is in a past hour, only hours that were complete at
        that time count.

        Raises NoSamples if there are no samples, and the errors of the client.
        """
        name, chosen = self._inputs.name_of(cluster), statistic or self._provider.statistic
        hourly = window_ms > self._provider.samples_up_to_seconds * 1000
        when, grain = TimeRange.up_to(at_ms, window_ms), Grain.HOURS if hourly else Grain.SAMPLES
        if hourly and at_ms // HOUR_MS < self._clock.now_ms() // HOUR_MS:
            when = TimeRange(when.since_ms, when.until_ms // HOUR_MS * HOUR_MS)
        rates = questions.partition_rates(self._client, name, when, statistic=chosen, grain=grain)
        if not rates:
            raise NoSamples(
                f"Pinot has no samples of cluster {name} in the last {window_ms // 1000} s",
                advice=f"Pinot has samples of {self._sampled_clusters(when) or 'no cluster'}; "
                "check the cluster's sampler and headrace pmp run",
            )
        reading = RateOptions(
            chosen, self._is_averaged(name), window_ms >= SETTLED_MS, self._inputs.compacted(cluster)
        )
        loads = marked(partition_loads(rates, reading), rates, rhythm_of(rates, when, grain), chosen)
        return LoadReport(
            loads=self._corrected(name, loads, when),
            provider=NAME,
            measured_at_ms=max(rate.newest_ms for rate in rates),
            notes=tuple(filter(None, [unit_problem(rates)])),
        )

    def _current(self, cluster: ClusterRef, now_ms: int) -> tuple[LoadReport, str]:
        """Return the latest load report available, and why it is not fresh (empty if it is).

        Queries Pinot at most once in `refresh_seconds`, whether the last query succeeded or failed.
        """
        remembered = self._last_known.recall(cluster)
        if remembered and 0 <= now_ms - remembered.answered_ms < self._refresh_ms:
            return remembered.report, ""
        failure = self._failures.get(cluster)
        if failure is None or not 0 <= now_ms - failure.at_ms < self._refresh_ms:
            try:
                report = self._whole(cluster, now_ms, remembered)
            except HeadraceError as error:
                if error.fatal:
                    raise
                failure = self._failures[cluster] = _FailedQuery(error, now_ms)
            else:
                self._failures.pop(cluster, None)
                self._last_known.remember(cluster, report, now_ms)
                return report, ""
        return self._instead(cluster, failure.error, remembered, now_ms)

    def _whole(self, cluster: ClusterRef, now_ms: int, remembered: CachedReport | None) -> LoadReport:
        """Return a load report, after checking that Pinot has returned all of its rows.

        Raises LoadUnavailable for a partial result, and the errors of `measured`.
        """
        window_ms = int(self._provider.window_seconds * 1000)
        try:
            report = self.measured(cluster, now_ms, window_ms)
        except NoSamples:
            raise
        except HeadraceError:
            self._catching_up.suspect()
            raise
        problem = self._catching_up.problem()
        if not problem and remembered is not None:
            problem = lost_rows(remembered.report, report, now_ms - window_ms + 1)
        if problem:
            raise LoadUnavailable(
                f"Pinot returned a partial result: {problem}",
                advice="wait until the Pinot server has read its topic again: a restarted server responds"
                " before that",
            )
        if not self._catching_up.unknown:
            return report
        note = f"unknown whether Pinot has read all samples: {self._catching_up.unknown}"
        return replace(report, notes=(*report.notes, note))

    def _instead(
        self, cluster: ClusterRef, error: HeadraceError, remembered: CachedReport | None, now_ms: int
    ) -> tuple[LoadReport, str]:
        """Return the last known load report after a failure, with all loads marked as held (outdated).

        Raises LoadUnavailable if there is no report, or if the last report is too old.
        """
        problem = f"no loads for cluster {cluster}: {error.message}"
        if remembered is None:
            raise LoadUnavailable(problem, advice=error.advice) from error
        age_ms = now_ms - (remembered.report.measured_at_ms or remembered.answered_ms)
        if age_ms > self._provider.oldest_answer_seconds * 1000:
            raise LoadUnavailable(
                f"{problem}; the last known loads are {age_text(age_ms)} old", advice=error.advice
            ) from error
        report = replace(remembered.report, loads=as_held(remembered.report.loads))
        return report, f"last known good, {age_text(age_ms)} old: {error.message}"

    def _staleness(self, measured_at_ms: int, now_ms: int) -> list[str]:
        age_ms = now_ms - measured_at_ms
        if age_ms <= self._provider.stale_after_seconds * 1000:
            return []
        return [f"stale: the latest sample is {age_text(age_ms)} old"]

    def _estimates(
        self, cluster: ClusterRef, known: LoadReport, partitions: Sequence[TopicPartition], now_ms: int
    ) -> Mapping[TopicPartition, PartitionLoad]:
        """Return seasonal loads of partitions without samples; empty if Pinot fails.

        The loads come from the rollups. Results are reused within an hour of the clock, and failures for
        `refresh_seconds`, unless partitions of further topics lack samples.
        """
        topics = frozenset(partition.topic for partition in partitions if partition not in known.loads)
        if not topics:
            return {}
        before = self._seasonal.get(cluster)
        if before and before.answers(topics, now_ms):
            return before.found
        name = self._inputs.name_of(cluster)
        reading = RateOptions(
            self._provider.statistic, self._is_averaged(name), True, self._inputs.compacted(cluster)
        )

        def loads_of(hour: TimeRange) -> dict[TopicPartition, PartitionLoad]:
            rates = questions.partition_rates(
                self._client,
                name,
                hour,
                statistic=reading.statistic,
                grain=Grain.HOURS,
                topics=sorted(topics),
            )
            return partition_loads(rates, reading)

        wanted = [partition for partition in partitions if partition.topic in topics]
        loads: Mapping[TopicPartition, PartitionLoad] = {}
        until_ms = (now_ms // HOUR_MS + 1) * HOUR_MS
        try:
            loads = seasonal_loads(wanted, now_ms, loads_of)
        except HeadraceError as error:
            _log.warning("cannot estimate seasonal loads", cluster=cluster, problem=str(error))
            until_ms = now_ms + self._refresh_ms
        self._seasonal[cluster] = _LookedUp(topics, loads, now_ms, until_ms)
        return loads

    def _topic_means(
        self, cluster: ClusterRef, known: LoadReport, partitions: Sequence[TopicPartition], now_ms: int
    ) -> Mapping[str, TopicRates]:
        """Return mean loads of topics without samples in the window; empty if Pinot fails.

        The means come from the rollups.
        """
        sampled = {partition.topic for partition in known.loads}
        missing = {partition.topic for partition in partitions} - sampled
        if not missing:
            return {}
        looked_up = self._means.get(cluster)
        if looked_up and looked_up.answers(missing, now_ms):
            return looked_up.found
        when = TimeRange.up_to(now_ms, int(self._provider.topic_history_hours * HOUR_MS))
        means = {}
        try:
            name = self._inputs.name_of(cluster)
            for row in questions.topic_rates(self._client, name, when, topics=sorted(missing)):
                means[row.topic] = row
        except HeadraceError as error:
            _log.warning("cannot query loads by topic", cluster=cluster, problem=str(error))
        self._means[cluster] = _LookedUp(frozenset(missing), means, now_ms, now_ms + self._refresh_ms)
        return means

    def _is_averaged(self, name: str) -> bool:
        sampled = self._settings.clusters.get(name)
        return sampled is None or sampled.sampled_by == "cruise-control"

    def _corrected(
        self, name: str, loads: dict[TopicPartition, PartitionLoad], when: TimeRange
    ) -> dict[TopicPartition, PartitionLoad]:
        """Replace loads that are averages over a topic by the mirror's own measurements.

        A load is replaced only where the mirror kept up. A measurement that covers only part of the range is
        `partial`.
        """
        averages = {partition for partition, load in loads.items() if load.rate_source is RateSource.MEAN}
        if not averages or not self._is_averaged(name):
            return loads
        corrected = dict(loads)
        topics = sorted({partition.topic for partition in averages})
        most_lag_ms = self._provider.kept_up_seconds * 1000
        try:
            rows = mirror_rates(self._client, name, when, topics, most_lag_ms)
        except NotFound:
            return loads  # no table: the mirror writes no metrics here
        for row in rows:
            partition = TopicPartition(row.topic, row.kafka_partition)
            if partition in averages:
                is_whole = row.covered_ms >= (1 - MOST_UNKNOWN) * when.length_ms
                corrected[partition] = replace(
                    loads[partition],
                    bytes_per_second=row.bytes_per_second,
                    messages_per_second=row.messages_per_second,
                    rate_source=RateSource.MIRROR if is_whole else RateSource.PARTIAL,
                    measured_at_ms=row.newest_ms,
                )
        return corrected

    def _sampled_clusters(self, when: TimeRange) -> str:
        return ", ".join(sorted({row.cluster for row in questions.freshness(self._client, when)}))


class SampleFreshness:
    """Reads from Pinot when a cluster was last sampled. Thread-safe."""

    def __init__(
        self,
        client: PinotClient,
        provider: ProviderSettings,
        clock: Clock,
        name_of: Callable[[ClusterRef], str],
    ) -> None:
        self._client = client
        self._provider = provider
        self._clock = clock
        self._name_of = name_of

    def of(self, cluster: ClusterRef) -> Freshness:
        """Return the time of the cluster's latest sample in Pinot.

        Raises LoadUnavailable if there is no sample of the cluster in the window (or in the time after which
        loads are stale, if that is longer), and the errors of the client.
        """
        stale_ms = int(self._provider.stale_after_seconds * 1000)
        span_ms = max(stale_ms, int(self._provider.window_seconds * 1000))
        name, when = self._name_of(cluster), TimeRange.up_to(self._clock.now_ms(), span_ms)
        newest_ms = questions.newest_sample(self._client, name, when)
        if newest_ms is None:
            raise NoSamples(
                f"Pinot has no samples of cluster {name} in the last {span_ms // 1000} s",
                advice="check the cluster's sampler and headrace pmp run",
            )
        return Freshness(newest_ms, stale_ms)
