"""Settings of the Partition Metrics Provider."""

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
    """Settings of a cluster whose samples are read. Its key is the alias of the cluster in `clusters`."""

    datacenter: str = ""
    """Name of the datacenter, stored with every sample."""
    sampled_by: Literal["cruise-control", "sampler"] = "cruise-control"
    """Writer of the samples: Cruise Control, or `headrace pmp sampler`. Stored as `source`."""
    samples_topic: str = SAMPLES_TOPIC
    """Value of Cruise Control's `partition.metric.sample.store.topic`."""
    execution_topic: str = EXECUTION_TOPIC
    """Value of Cruise Control's `partition.metric.sample.store.on.execution.topic`; Cruise Control writes
    samples only to this topic while it moves replicas. The topic need not exist yet."""
    include: str = ".*"
    """Regular expression for names of topics whose samples are kept."""
    exclude: str = ""
    """Regular expression for names of topics whose samples are dropped. Takes precedence over `include`."""
    internal: bool = False
    """Keep samples of topics whose names start with two underscores."""
    enabled: bool = True
    """Read the samples of this cluster. If you disable and later enable reading, it resumes from the last
    position."""

    @model_validator(mode="after")
    def _can_match(self) -> SampledCluster:
        try:
            self.selection.require_topic_characters()
        except InvalidRequest as error:
            raise ValueError(str(error)) from error
        if self.samples_topic == self.execution_topic:
            raise ValueError("samples_topic and execution_topic must differ")
        return self

    @property
    def selection(self) -> TopicSelection:
        """Selection of the topics whose samples are kept."""
        return TopicSelection(self.include, self.exclude, self.internal)


class JobSettings(Settings):
    """Settings of the Spark job `headrace pmp run`."""

    master: str = "local[4]"
    """Spark master. If empty, spark-submit chooses the master."""
    spark_options: dict[str, str] = Field(default_factory=dict)
    """Spark options, such as `spark.executor.memory`. These options override the options that Headrace
    sets."""
    quick_start: bool = False
    """Limit JIT compilation in the driver's JVM, for short runs. Startup takes a quarter less time, but the
    job then runs slower."""
    driver_memory: str = "1g"
    """Heap of the driver, in Spark's notation. In local mode the whole job runs in the driver."""
    spark_log: str = ".headrace/pmp-spark.log"
    """File for Spark's own log, if this process starts Spark. The file grows to 10 MiB, and one older file is
    kept. If the setting is empty, or if spark-submit starts the job, Spark logs to stderr."""
    checkpoint_folder: str = ".headrace/pmp"
    """Location of the job's positions and state: a folder, or a URL that Spark supports (hdfs://, s3a://)."""
    trigger_interval_seconds: float = Field(default=1.0, ge=0)
    """Interval between two batches of a cluster; 0 starts a batch as soon as the previous batch is done."""
    samples_per_trigger: int = Field(default=1_000_000, ge=1000)
    """Maximum number of samples in one batch of one cluster."""
    parallelism: int = Field(default=2, ge=1)
    """Number of Python tasks per batch and cluster; must not exceed `buckets`. You cannot change it after the
    first run with a checkpoint folder."""
    buckets: int = Field(default=16, ge=1, le=4096)
    """Number of parts into which the partition state of a cluster is divided. More parts allow more tasks to
    share the work. You cannot change it after the first run with a checkpoint folder."""
    shards: int = Field(default=1, ge=1)
    """Number of `headrace pmp run` processes among which the clusters are divided."""
    shard: int = Field(default=0, ge=0)
    """Number of this driver's shard, starting at 0. Shard 0 maintains the rollups."""
    clock_tolerance_seconds: Seconds = 600.0
    """Maximum time by which the timestamp of a sample may be ahead of the local clock. Samples with a later
    timestamp count as malformed."""
    metrics_port: int = Field(default=0, ge=0, le=65535)
    """Port of the job's Prometheus metrics; 0 disables them."""
    metrics_host: str = "127.0.0.1"
    """Address to bind `metrics_port` to; any address except loopback is reachable from the network."""
    executor_wait_seconds: Seconds = 300.0
    """Time without any Spark executor after which the job ends. A Spark master that restarted without its
    state gives a running job no executors, but accepts the job when it starts again."""
    reload_interval_seconds: Seconds = 30.0
    """Interval at which the configuration is reloaded, to add and remove clusters."""

    @property
    def written_log(self) -> str:
        """File that contains Spark's own log; empty if Spark logs elsewhere.

        Under spark-submit, Spark logs elsewhere.
        """
        return self.spark_log if self.master else ""

    @model_validator(mode="after")
    def _possible(self) -> JobSettings:
        if self.shard >= self.shards:
            raise ValueError(f"invalid shard {self.shard} of {self.shards}: the first shard is 0")
        if self.parallelism > self.buckets:
            raise ValueError(f"parallelism {self.parallelism} exceeds buckets {self.buckets}")
        return self


class RollupSettings(Settings):
    """Settings of the hourly rollups, which `headrace pmp run` maintains."""

    enabled: bool = True
    """Maintain the rollups; if false, the table `partitionMetricsHourly` is not updated."""
    interval_seconds: Seconds = 300.0
    """Interval at which hours with new samples are rolled up. The current hour is included."""
    horizon_hours: int = Field(default=48, ge=1)
    """Age up to which hours are checked for late samples. The age must be less than the retention of
    `partitionMetrics`."""


class SamplerSettings(Settings):
    """Settings of the sampler for clusters without Cruise Control."""

    interval_seconds: Seconds = 30.0
    """Time between two samples of a partition."""
    topic_partitions: int = Field(default=8, ge=1)
    """Number of partitions of the samples topic if the sampler creates the topic."""


class ProviderSettings(Settings):
    """Settings of the provider that computes loads for the assigner."""

    window_seconds: Seconds = 3600.0
    """Window over which loads are computed."""
    statistic: Statistic = Statistic.P95
    """Statistic of the rates within the window that is used as the load of a partition."""
    default_bytes_per_second: float | None = Field(default=None, ge=0, le=HIGHEST_RATE)
    """Load of a partition whose topic has no measurements. If 0 or unset, `assigner.unknown.bytes_per_second`
    is used."""
    samples_up_to_seconds: Seconds = 7200.0
    """Longest window that is computed from samples. Longer windows are computed from the hourly rollups."""
    refresh_seconds: float = Field(default=10.0, ge=0)
    """Minimum time between two queries to Pinot."""
    stale_after_seconds: Seconds = 600.0
    """Age of the latest sample after which loads are reported as stale."""
    oldest_answer_seconds: Seconds = 86_400.0
    """Maximum age of the last known loads, which are used while Pinot does not respond."""
    topic_history_hours: float = Field(default=168.0, gt=0)
    """Maximum age of earlier average loads that may be used for a topic without recent samples."""
    kept_up_seconds: Seconds = 60.0
    """Maximum lag at which the rate measured by the mirror replaces an average of Cruise Control as the load
    of a partition."""
    cache_folder: str = ""
    """Folder that keeps the last known loads across restarts. If empty, the last known loads are kept in
    memory only."""


class PmpSettings(Settings):
    """Settings of partition metrics."""

    output_cluster: str = "destination"
    """Kafka cluster of the merged topic, from which Pinot ingests."""
    topic: str = "headrace-partition-metrics"
    """Topic with the merged samples of all clusters."""
    hourly_topic: str = "headrace-partition-metrics-hourly"
    """Topic of the hourly rollups."""
    dead_letter_topic: str = "headrace-partition-metrics-dead-letters"
    """Topic for malformed samples, which are stored unchanged with the reason in the record headers."""
    topic_partitions: int = Field(default=4, ge=1)
    """Number of partitions of the topics in this section if Headrace creates them."""
    clusters: dict[str, SampledCluster] = Field(default_factory=lambda: {"source": SampledCluster()})
    """Clusters whose samples are read, by alias."""
    job: JobSettings = JobSettings()
    rollup: RollupSettings = RollupSettings()
    sampler: SamplerSettings = SamplerSettings()
    provider: ProviderSettings = ProviderSettings()

    @model_validator(mode="after")
    def _consistent(self) -> PmpSettings:
        written = {self.topic, self.hourly_topic, self.dead_letter_topic}
        if len(written) < 3:
            raise ValueError("topic, hourly_topic and dead_letter_topic must differ")
        here = self.clusters.get(self.output_cluster)
        if here is not None and (both := written & {here.samples_topic, here.execution_topic}):
            raise ValueError(f"topic {min(both)} of {self.output_cluster} is both read and written")
        return self
