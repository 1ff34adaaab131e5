"""Set-up: its package sources, its messages, and its state after an interruption."""

from __future__ import annotations

import ast
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections import namedtuple
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType

import psutil
import pytest

from tests.patience import PATIENCE_SECONDS, wait_until
from tests.scripts import module_of

ROOT = Path(__file__).parents[3]
Usage = namedtuple("Usage", "total used free")
NOWHERE = {
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_RETRIES": "0",
    "PIP_TIMEOUT": "2",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_FIND_LINKS": "",
}
BACKEND = """
import zipfile
def get_requires_for_build_editable(config_settings=None):
    return []
def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "small-1-py3-none-any.whl"
    with zipfile.ZipFile(folder + "/" + name, "w") as wheel:
        for file, text in (("METADATA", "Metadata-Version: 2.1\\nName: small\\nVersion: 1\\n"),
                           ("WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"),
                           ("RECORD", "")):
            wheel.writestr("small-1.dist-info/" + file, text)
    return name
"""


class Silent(SimpleHTTPRequestHandler):
    """Server of the files of a folder, without a log."""

    def log_message(self, *_: object) -> None:
        pass


class Registry:
    """Package registry on a port of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.sums: dict[str, str] = {}
        handler = partial(Silent, directory=str(folder))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/simple"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def add(self, name: str, source: str) -> None:
        wheel = self._folder / "simple" / name / f"{name}-1-py3-none-any.whl"
        wheel.parent.mkdir(parents=True)
        files = {
            f"{name}.py": source,
            f"{name}-1.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
            f"{name}-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{name}-1.dist-info/RECORD": "",
        }
        with zipfile.ZipFile(wheel, "w") as archive:
            for file, text in files.items():
                archive.writestr(file, text)
        self.sums[name] = hashlib.sha256(wheel.read_bytes()).hexdigest()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    running = Registry(tmp_path / "registry")
    yield running
    running.close()


def small_project(project: Path, registry: Registry) -> None:
    """Write a project in place of ours: one package, and the uv of this environment as a cached one."""
    kept = project / ".cache" / "setup" / f"uv-{hashlib.sha256().hexdigest()[:16]}"
    kept.parent.mkdir(parents=True)
    shutil.copy(Path(sys.executable).with_name("uv"), kept)
    packages = [f"{name}==1 \\\n    --hash=sha256:{known}\n" for name, known in registry.sums.items()]
    (project / "requirements" / "dev.txt").write_text("".join(packages))
    for folder, name in ((project, "small"), (project / "headrace_dev", "smaller")):
        (folder / "pyproject.toml").write_text(
            '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
            f'[project]\nname = "{name}"\nversion = "1"\n'
        )
        (folder / "backend.py").write_text(BACKEND.replace("small", name))


def load(folder: Path) -> ModuleType:
    path = list(sys.path)
    try:
        return module_of(folder / "scripts" / "bootstrap.py")
    finally:
        sys.path[:] = path


@pytest.fixture
def bootstrap() -> ModuleType:
    return load(ROOT)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a checkout with only the files that the set-up reads."""
    copy = tmp_path / "project"
    shutil.copytree(ROOT / "scripts", copy / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("requirements/dev.txt", "pyproject.toml", "headrace_dev/pyproject.toml"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    return copy


def the_line(capsys: pytest.CaptureFixture[str]) -> str:
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_an_old_python_is_told_what_to_do(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    with pytest.raises(SystemExit) as ended:
        bootstrap.check_python()
    assert ended.value.code == 1
    line = the_line(capsys)
    assert "Python 3.11" in line
    assert "PYTHON=" in line


@pytest.mark.parametrize("name", ["bootstrap.py", "children.py", "uv_settings.py"])
def test_the_scripts_can_be_read_by_an_old_python(name: str) -> None:
    ast.parse((ROOT / "scripts" / name).read_text(), feature_version=(3, 7))


def test_too_little_disk_is_told_what_to_do(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100e9, 99e9, 1e9))
    with pytest.raises(SystemExit):
        bootstrap.check_disk()
    line = the_line(capsys)
    assert "1.0 GB free" in line
    assert "6 GB" in line


@pytest.mark.deep
def test_no_registry_is_told_what_to_do(project: Path) -> None:
    """Neither uv nor pip, its fallback, reaches one."""
    done = subprocess.run(
        [sys.executable, str(project / "scripts" / "bootstrap.py")],
        env={**os.environ, **NOWHERE},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "PIP_INDEX_URL" in line
    assert "installing with pip" in done.stdout


@pytest.mark.deep
def test_it_installs_from_the_registry_that_pip_is_configured_with(
    project: Path, registry: Registry, tmp_path: Path
) -> None:
    """It uses uv, which does not read that configuration, and later uv's cache instead of the registry."""
    registry.add("tiny", "VALUE = 1\n")
    small_project(project, registry)
    configuration = tmp_path / "pip.conf"
    configuration.write_text(f"[global]\nindex-url = {registry.address}\nretries = 0\n")
    settings = {**os.environ, "PIP_CONFIG_FILE": str(configuration), "UV_CACHE_DIR": str(tmp_path / "uv")}
    for name in ("PIP_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX", "UV_DEFAULT_INDEX"):
        settings.pop(name, None)
    script = [sys.executable, str(project / "scripts" / "bootstrap.py")]
    installed = [str(project / ".venv" / "bin" / "python"), "-c", "import tiny; print(tiny.VALUE)"]
    for moment in ("for the first time", "after an interruption, without the registry"):
        done = subprocess.run(
            script, env=settings, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
        log = (project / ".cache" / "setup.log").read_text()
        assert done.returncode == 0, f"{moment}: {done.stdout}{done.stderr}{log}"
        assert "installing with pip" not in done.stdout, f"{moment}: {log}"
        assert subprocess.check_output(installed, text=True) == "1\n", moment
        module = next((project / ".venv").glob("lib/python*/site-packages/tiny.py"))
        module.unlink()  # a killed installation leaves packages that look installed
        (project / ".venv" / ".headrace-setup").write_text("begun")
        registry.close()


def test_the_environment_of_another_checkout_is_left_alone(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (project / ".venv").symlink_to(other)
    command = [sys.executable, str(project / "scripts" / "bootstrap.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 1
    assert str(other) in done.stderr
    assert not list(other.iterdir())


def test_one_waits_for_the_set_up_of_another(project: Path) -> None:
    script = load(project)
    (project / ".cache").mkdir()
    with (project / ".cache" / "setup.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = subprocess.Popen(
            [sys.executable, str(project / "scripts" / "bootstrap.py")], stdout=subprocess.PIPE, text=True
        )
        assert waiting.stdout is not None
        with waiting.stdout as lines:
            assert "another make" in lines.readline()
            python = project / ".venv" / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.touch()
            script.write_stamp(script.wanted_stamp())
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert waiting.wait(PATIENCE_SECONDS) == 0
            assert not lines.read()


def test_what_it_has_started_ends_with_it(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from children import Children\n"
        "it = Children('.'); runs = 'import time; print(1, flush=True); time.sleep(600)'\n"
        "it.begin([sys.executable, '-c', runs], '', sys.argv[2])\n"
        "it.run_shown([sys.executable, '-c', runs])\n"
    )
    log = tmp_path / "log"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(ROOT / "scripts"), str(log)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as started:
        assert started.stdout is not None
        while started.stdout.readline() != "1\n":
            assert started.poll() is None
        wait_until(lambda: log.read_text() == "1\n", "the other child has started")
        children = psutil.Process(started.pid).children()
        assert len(children) == 2
        started.terminate()
        assert started.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM
    wait_until(lambda: not any(child.is_running() for child in children), "the children have exited")


def test_the_exit_status_is_that_of_the_command(project: Path) -> None:
    script = load(project)
    python = project / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    script.write_stamp(script.wanted_stamp())
    script_file = str(project / "scripts" / "bootstrap.py")
    command = [sys.executable, script_file, "--", sys.executable, "-c", "raise SystemExit(7)"]
    assert subprocess.run(command, timeout=PATIENCE_SECONDS, check=False).returncode == 7


def test_a_mirror_only_install_is_small() -> None:
    names = {
        line.partition("==")[0]
        for line in (ROOT / "requirements" / "run.txt").read_text().splitlines()
        if "==" in line
    }
    assert names, "the lock file is empty"
    assert not names & {"pyspark", "ortools", "pandas", "numpy", "pyarrow", "pinotdb", "matplotlib", "scipy"}
    assert not names & {"confluent-kafka", "kazoo", "pyjwt", "tenacity"}
    assert {"kafka-python", "fastapi"} <= names
