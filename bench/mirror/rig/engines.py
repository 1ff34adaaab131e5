"""The mirrors compared: Headrace, MirrorMaker 2, and a loop around confluent-kafka.

Each copies one topic from the beginning until it is stopped; `latency` tunes it for fast delivery. All write
with acks=all, idempotently, with the codec of the source. `BENCH_FORMER` names the folder of another checkout
of Headrace, set up and compiled like this one, which runs in turn with this one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench.mirror.rig.clusters import TLS_FILES, TLS_LISTENER, Pair
from headrace.process.machine_code import SWITCH
from mirror.protocol.batches.compression import Codec
from stack.jars import jar_sets
from stack.jars.java import find_java
from stack.process.managed_process import ManagedProcess

_REPOSITORY = Path(__file__).parents[3]
_FORMER = os.environ.get("BENCH_FORMER")
MIRROR_MAKER_TOPICS = ("mm2-", "source.checkpoints", "heartbeats")


@dataclass(frozen=True)
class Work:
    """Topic to copy, its codec, whether to tune for latency, and whether clients connect with TLS."""

    topic: str
    codec: Codec
    latency: bool = False
    tls: bool = False

    def addresses(self, pair: Pair) -> tuple[str, str]:
        """Return the bootstrap servers of the source and of the destination."""
        if self.tls:
            return pair.source.address_of(TLS_LISTENER), pair.target.address_of(TLS_LISTENER)
        return pair.source.address, pair.target.address


@dataclass(frozen=True)
class Engine:
    """A mirror to measure: name in tables, destination topic, and process (not started)."""

    name: str
    target: str
    process: ManagedProcess


def headrace(
    pair: Pair,
    work: Work,
    *options: str,
    environment: Mapping[str, str] | None = None,
    directory: Path = _REPOSITORY,
) -> Engine:
    """Return `headrace copy` with default settings and one worker, of the checkout in that directory."""
    target = f"{work.topic}-headrace"
    settings = pair.folder / "headrace.toml"
    settings.write_text(_headrace_settings(pair, work), encoding="utf-8")
    command = [sys.executable, "-m", "headrace", "copy", "--config", str(settings)]
    command += ["--source", "source", "--destination", "target"]
    command += ["--topics", work.topic, "--rename", "*-headrace"]
    command += ["--start", "latest"] if work.latency else []
    process = _held(pair, "headrace", [*command, *options], environment, directory)
    return Engine("headrace", target, process)


def _headrace_settings(pair: Pair, work: Work) -> str:
    security = f'security = {{ protocol = "SSL", ca_file = "{TLS_FILES / "ca.pem"}" }}\n' if work.tls else ""
    return "".join(
        f'[clusters.{name}]\nbootstrap_servers = "{address}"\n{security}'
        for name, address in zip(("source", "target"), work.addresses(pair), strict=True)
    )


def formers() -> dict[str, Callable[[Pair, Work], Engine]]:
    """Return the other checkout by its name in tables; empty unless BENCH_FORMER is set."""
    return {"former": partial(_former, Path(_FORMER))} if _FORMER else {}


def _former(directory: Path, pair: Pair, work: Work) -> Engine:
    # Put the modules of that checkout before this one's, which may be on the interpreter's path.
    environment = {"PYTHONPATH": str(directory)}
    return replace(headrace(pair, work, environment=environment, directory=directory), name="former")


def interpreted(pair: Pair, work: Work) -> Engine:
    """Return Headrace with an interpreted data plane."""
    return replace(headrace(pair, work, environment={SWITCH: "0"}), name="interpreted")


def confluent_loop(pair: Pair, work: Work) -> Engine:
    """Return a tuned confluent-kafka loop in Python. The destination topic must exist."""
    target = f"{work.topic}-loop"
    arguments = [pair.source.address, pair.target.address, work.topic, target, work.codec.name.lower()]
    mode = "latency" if work.latency else "throughput"
    command = [sys.executable, "-m", "bench.mirror.rig.confluent_loop", *arguments, mode]
    return Engine("confluent-kafka", target, _held(pair, "loop", command))


def mirror_maker(pair: Pair, work: Work, settings: Mapping[str, object] | None = None) -> Engine:
    """Return MirrorMaker 2 of the same Kafka release, tuned, in dedicated mode, with additional settings."""
    folder = pair.folder / "mirror-maker"
    folder.mkdir(exist_ok=True)
    file = folder / "mm2.properties"
    chosen = {**_mirror_maker_settings(pair, work), **(settings or {})}
    lines = [f"{key} = {value}" for key, value in chosen.items()]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    logging = folder / "log4j2.xml"
    logging.write_text(_LOG4J, encoding="utf-8")
    heap = "4g" if work.tls else "2g"  # with TLS, the buffers of these settings do not fit into 2 GiB
    java = [
        str(find_java().executable),
        f"-Xms{heap}",
        f"-Xmx{heap}",
        f"-Dlog4j2.configurationFile={logging}",
    ]
    command = [
        *java,
        "-cp",
        jar_sets.class_path("kafka"),
        "org.apache.kafka.connect.mirror.MirrorMaker",
        str(file),
    ]
    return Engine("MirrorMaker 2", work.topic, _held(pair, "mirror-maker", command))


def _held(
    pair: Pair,
    name: str,
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    directory: Path = _REPOSITORY,
) -> ManagedProcess:
    return ManagedProcess(name, command, environment, pair.folder / f"{name}.log", directory=directory)


def _mirror_maker_settings(pair: Pair, work: Work) -> dict[str, object]:
    source, target = work.addresses(pair)
    settings: dict[str, object] = {
        "clusters": "source, target",
        "source.bootstrap.servers": source,
        "target.bootstrap.servers": target,
        "source->target.enabled": "true",
        "target->source.enabled": "false",
        "source->target.topics": work.topic,
        "tasks.max": 8,
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "emit.heartbeats.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "refresh.topics.interval.seconds": 10,
        "target.offset.flush.interval.ms": 10_000,
        "target.offset.flush.timeout.ms": 30_000,
        "source.consumer.fetch.min.bytes": 1 if work.latency else 65_536,
        "source.consumer.fetch.max.wait.ms": 100,
        "source.consumer.fetch.max.bytes": 104_857_600,
        "source.consumer.max.partition.fetch.bytes": 10_485_760,
        "source.consumer.max.poll.records": 10_000,
        "source.consumer.receive.buffer.bytes": 4_194_304,
        "source.consumer.auto.offset.reset": "latest" if work.latency else "earliest",
        "target.producer.acks": "all",
        "target.producer.enable.idempotence": "true",
        "target.producer.max.in.flight.requests.per.connection": 5,
        "target.producer.batch.size": 524_288,
        "target.producer.linger.ms": 1 if work.latency else 20,
        "target.producer.compression.type": work.codec.name.lower(),
        "target.producer.buffer.memory": 268_435_456,
        "target.producer.max.request.size": 10_485_760,
        "target.producer.send.buffer.bytes": 4_194_304,
    }
    if work.tls:
        files = {"ssl.truststore.type": "PEM", "ssl.truststore.location": TLS_FILES / "ca.pem"}
        values = {"security.protocol": TLS_LISTENER, **files}
        settings |= {f"{side}.{key}": value for side in ("source", "target") for key, value in values.items()}
    topics = ("offset-syncs.topic", "checkpoints.topic", "heartbeats.topic")
    storages = ("config.storage", "offset.storage", "status.storage")
    return (
        settings
        | {f"{name}.replication.factor": 1 for name in (*topics, *storages)}
        | {"replication.factor": 1}
    )


_LOG4J = """\
<Configuration status="error">
 <Appenders>
  <Console name="out"><PatternLayout pattern="%d{ISO8601} %-5p %c{1} %m%n"/></Console>
 </Appenders>
 <Loggers><Root level="warn"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""
