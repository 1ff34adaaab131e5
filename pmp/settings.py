"""What an operator can set about the Partition Metrics Provider."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from mirror.errors import InvalidRequest
from mirror.model.load import HIGHEST_RATE
from mirror.model.topics import TopicSelection
from mirror.settings import Seconds, Settings
from pinot.tables import Statistic
from pmp.samples.sample import EXECUTION_TOPIC, SAMPLES_TOPIC


class SampledCluster(Settings):
    """A cluster whose samples are read; its name is the alias in `clusters`."""

    datacenter: str = ""
    """Stored with every sample."""
    sampled_by: Literal["cruise-control", "sampler"] = "cruise-control"
    """Who writes the samples: Cruise Control, or `headrace pmp sampler`. Stored as `source`."""
    samples_topic: str = SAMPLES_TOPIC
    """Cruise Control's `partition.metric.sample.store.topic`."""
    execution_topic: str = EXECUTION_TOPIC
    """Its `partition.metric.sample.store.on.execution.topic`; the only one that speaks while it moves
    replicas. A topic that is not there yet is picked up when it appears."""
    include: str = ".*"
    """Regular expression over topic names: whose samples are kept."""
    exclude: str = ""
    """Regular expression over topic names: whose samples are dropped. Wins over `include`."""
    internal: bool = False
    """Keep samples of topics that begin with two underscores."""
    enabled: bool = True
    """False stops reading this cluster; it goes on where it stopped."""

    @model_validator(mode="after")
    def _can_match(self) -> SampledCluster:
        try:
            self.selection.require_topic_characters()
        except InvalidRequest as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def selection(self) -> TopicSelection:
        """Whose samples are kept."""
        return TopicSelection(self.include, self.exclude, self.internal)


class JobSettings(Settings):
    """The Spark job `headrace pmp run`."""

    master: str = "local[4]"
    """Spark master; empty where spark-submit says it."""
    spark_options: dict[str, str] = Field(default_factory=dict)
    """Spark's own options, such as `spark.executor.memory`; they win over ours."""
    quick_start: bool = False
    """Compile less in the driver's JVM: it starts a quarter sooner and runs slower. For short runs."""
    driver_memory: str = "1g"
    """Heap of the driver, in Spark's notation. In local mode everything runs in it."""
    spark_log: str = ".headrace/pmp-spark.log"
    """File of Spark's own log, where this process starts Spark: 10 MiB, and one older. Empty leaves it on
    stderr."""
    checkpoint_folder: str = ".headrace/pmp"
    """Where Spark keeps positions and state; a folder, or a URL that Spark knows (hdfs://, s3a://)."""
    trigger_interval_seconds: float = Field(default=1.0, ge=0)
    """How often a cluster's new samples are taken up; 0 means as soon as the last batch is done."""
    samples_per_trigger: int = Field(default=1_000_000, ge=1000)
    """Most samples of one batch of one cluster."""
    parallelism: int = Field(default=2, ge=1)
    """Python tasks per batch and cluster, at most `buckets`. Fixed by the first run over a checkpoint."""
    buckets: int = Field(default=16, ge=1, le=4096)
    """Pieces of what is remembered of a cluster's partitions: more of them let more tasks share it. Kept
    with the checkpoint; another number over the same checkpoint is refused."""
    shards: int = Field(default=1, ge=1)
    """Drivers that share the clusters, each of them a `headrace pmp run` of its own."""
    shard: int = Field(default=0, ge=0)
    """Which of the shards this driver is, from 0. Shard 0 keeps the rollups up."""
    clock_tolerance_seconds: Seconds = 600.0
    """Samples that lie further ahead of our clock are malformed."""
    metrics_port: int = Field(default=0, ge=0, le=65535)
    """Port of the job's Prometheus metrics; 0 means none."""
    metrics_host: str = "127.0.0.1"
    """Address of that port; others than loopback make it reachable from the network."""
    reload_interval_seconds: Seconds = 30.0
    """How often the configuration is read again for clusters that were added or removed."""

    @model_validator(mode="after")
    def _possible(self) -> JobSettings:
        if self.shard >= self.shards:
            raise ValueError(f"shard {self.shard} is none of {self.shards} shards, which are counted from 0")
        if self.parallelism > self.buckets:
            raise ValueError(f"parallelism {self.parallelism} is above buckets {self.buckets}")
        return self


class RollupSettings(Settings):
    """The hourly rollups, which `headrace pmp run` keeps up."""

    enabled: bool = True
    """False leaves `partitionMetricsHourly` as it is."""
    interval_seconds: Seconds = 300.0
    """How often hours with new samples are rolled up, the running one too."""
    horizon_hours: int = Field(default=48, ge=1)
    """How far back late samples are looked for; less than the retention of `partitionMetrics`."""


class SamplerSettings(Settings):
    """The sampler for clusters without Cruise Control."""

    interval_seconds: Seconds = 30.0
    """Time between two samples of a partition."""
    topic_partitions: int = Field(default=8, ge=1)
    """Of the samples topic, where the sampler creates it."""


class ProviderSettings(Settings):
    """What the assigner is told."""

    window_seconds: Seconds = 3600.0
    """Loads are taken over this much of the past."""
    statistic: Statistic = Statistic.P95
    """Which number of the window stands for a partition's load."""
    default_bytes_per_second: float | None = Field(default=None, ge=0, le=HIGHEST_RATE)
    """Load of a partition of whose topic nothing is known; where it is 0 or left out,
    `assigner.unknown.bytes_per_second`."""
    samples_up_to_seconds: Seconds = 7200.0
    """Longer windows are answered from the hourly rollups."""
    refresh_seconds: float = Field(default=10.0, ge=0)
    """Pinot is not asked again within this time."""
    stale_after_seconds: Seconds = 600.0
    """When the newest sample is older, the answer says so."""
    oldest_answer_seconds: Seconds = 86_400.0
    """While Pinot does not answer, the last known loads serve until they are this old."""
    topic_history_hours: float = Field(default=168.0, gt=0)
    """How far back a topic without samples is looked up for its mean."""
    kept_up_seconds: Seconds = 60.0
    """Where loads are only averages, the mirror's own rates of partitions that lagged less than this
    correct them."""
    cache_folder: str = ""
    """Where the last known loads are kept over restarts; empty keeps them in memory only."""


class PmpSettings(Settings):
    """Everything about partition metrics."""

    output_cluster: str = "destination"
    """Kafka cluster of the merged topic; the one that Pinot ingests from."""
    topic: str = "headrace-partition-metrics"
    """The one topic that the samples of all clusters become."""
    hourly_topic: str = "headrace-partition-metrics-hourly"
    """Hourly rollups."""
    dead_letter_topic: str = "headrace-partition-metrics-dead-letters"
    """Values that are no samples, as they were, with the reason in their headers."""
    topic_partitions: int = Field(default=4, ge=1)
    """Of these topics where we create them."""
    clusters: dict[str, SampledCluster] = Field(default_factory=lambda: {"source": SampledCluster()})
    """Whose samples are read, by alias."""
    job: JobSettings = JobSettings()
    rollup: RollupSettings = RollupSettings()
    sampler: SamplerSettings = SamplerSettings()
    provider: ProviderSettings = ProviderSettings()

    @model_validator(mode="after")
    def _consistent(self) -> PmpSettings:
        if len({self.topic, self.hourly_topic, self.dead_letter_topic}) < 3:
            raise ValueError("topic, hourly_topic and dead_letter_topic must differ")
        return self
