"""Servers start with an archive of their classes, or without it if it is not usable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack.folders import HOME_VARIABLE
from stack.jars.class_archive import archive_file
from stack.jars.java import JavaRuntime, bundled_java
from stack.ports import free_ports
from stack.server import Jvm
from stack.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.servers, pytest.mark.deep]


@pytest.fixture(scope="module")
def java() -> JavaRuntime:
    return bundled_java()


@pytest.fixture(scope="module")
def archive(java: JavaRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOME_VARIABLE, str(home))
        server = a_server(java, home / "zookeeper")
        assert not server.has_class_archive()
        server.make_class_archive()
        assert not server.is_alive()
        server.wipe()
        assert server.has_class_archive()
        [made] = [file for file in (home / ".cache" / "classes").iterdir() if file.name != ".lock"]
        yield made


def a_server(java: JavaRuntime, folder: Path, *options: str) -> ZooKeeperServer:
    return ZooKeeperServer(
        "zookeeper", folder, free_ports(1)[0], jvm=Jvm(128, java, quick_start=True, options=options)
    )


def main_class_comes_from(java: JavaRuntime, folder: Path) -> str:
    """Start a server; return the source of the main class according to its JVM."""
    loads = folder / "loads.txt"
    server = a_server(java, folder, f"-Xlog:class+load:file={loads}")
    server.start()
    server.kill()
    line = next(line for line in loads.read_text().splitlines() if "quorum.QuorumPeerMain " in line)
    return line.partition("source: ")[2]


def test_the_classes_come_from_the_archive(java: JavaRuntime, archive: Path, tmp_path: Path) -> None:
    assert archive.exists()
    assert "shared objects file" in main_class_comes_from(java, tmp_path)


def test_an_archive_is_made_once(java: JavaRuntime, archive: Path, tmp_path: Path) -> None:
    before = archive.stat()
    a_server(java, tmp_path).make_class_archive()
    assert archive.stat() == before
    assert not (tmp_path / "zookeeper.log").exists()


@pytest.mark.parametrize("left", [0, 1000, 3_000_000])
def test_a_damaged_archive_is_left_aside(left: int, java: JavaRuntime, archive: Path, tmp_path: Path) -> None:
    whole = archive.read_bytes()
    damaged = archive.with_suffix(".damaged")
    damaged.write_bytes(whole[:left])
    os.replace(damaged, archive)
    try:
        assert "zookeeper" in main_class_comes_from(java, tmp_path)
    finally:
        damaged.write_bytes(whole)
        os.replace(damaged, archive)


def test_an_archive_of_another_java_is_left_aside(java: JavaRuntime, archive: Path, tmp_path: Path) -> None:
    """An update of Java in the same folder changes its file `release`."""
    other = JavaRuntime(tmp_path / "java", java.version, java.source)
    other.home.mkdir()
    for part in java.home.iterdir():
        (other.home / part.name).symlink_to(part)
    (other.home / "release").unlink()
    (other.home / "release").write_text('JAVA_VERSION="21.0.99"\n', encoding="utf-8")
    server = a_server(other, tmp_path / "zookeeper")
    assert archive.exists()
    assert not server.has_class_archive()


def test_a_jar_that_has_changed_has_no_archive(java: JavaRuntime, tmp_path: Path) -> None:
    jar = tmp_path / "one.jar"
    names = {archive_file(java, str(jar))}
    for text in ("one", "another"):
        jar.write_text(text)
        names.add(archive_file(java, str(jar)))
    assert len(names) == 3
