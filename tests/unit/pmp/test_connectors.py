"""Spark's connectors: where the job finds them, and the error if it does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mirror.errors import ConfigError
from pmp.job.connectors import CONNECTORS, connectors
from pmp.settings import JobSettings

LOCAL_ADDRESS = "SPARK_LOCAL_IP"


@pytest.fixture(autouse=True)
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of jars of a Spark without connectors."""
    for name in (CONNECTORS, LOCAL_ADDRESS):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    return jars


def test_the_variable_names_the_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = [tmp_path / "a.jar", tmp_path / "ü b.jar"]
    for jar in jars:
        jar.touch()
    monkeypatch.setenv(CONNECTORS, f"{jars[0]},{jars[1]},")
    assert connectors(JobSettings()) == [str(jar) for jar in jars]


def test_a_file_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONNECTORS, str(tmp_path / "away.jar"))
    with pytest.raises(ConfigError, match=r"away\.jar"):
        connectors(JobSettings())


def test_without_the_variable_spark_must_have_them(spark: Path) -> None:
    with pytest.raises(ConfigError, match=CONNECTORS):
        connectors(JobSettings())
    (spark / "spark-sql-kafka-0-10_2.13-4.0.0.jar").touch()
    assert connectors(JobSettings()) == []


def test_spark_submit_brings_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONNECTORS, "nowhere.jar")
    assert connectors(JobSettings(master="")) == []
    assert LOCAL_ADDRESS not in os.environ


@pytest.mark.parametrize(("master", "listens"), [("local[2]", "127.0.0.1"), ("spark://host:7077", None)])
def test_only_a_spark_on_this_machine_listens_on_loopback(
    master: str, listens: str | None, spark: Path
) -> None:
    (spark / "spark-sql-kafka-0-10_2.13-4.0.0.jar").touch()
    connectors(JobSettings(master=master))
    assert os.environ.get(LOCAL_ADDRESS) == listens
    os.environ[LOCAL_ADDRESS] = "10.0.0.7"
    connectors(JobSettings(master=master))
    assert os.environ[LOCAL_ADDRESS] == "10.0.0.7"
