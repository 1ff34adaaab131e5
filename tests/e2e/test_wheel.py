"""Wheels built by `make wheel`, installed without a checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.console.client import RestClient
from headrace_dev.compilation.builds import DONE, build
from mirror.adapters.embedded_store.store import FILE_NAME
from stack.ports import free_ports
from stack.process.managed_process import ManagedProcess
from tests.e2e.conftest import NewInstance, service_environment
from tests.kafka_data import make_topic, produce, read_all
from tests.mirrored import create_datastream, some_records, wait_for_copy
from tests.patience import PATIENCE_SECONDS, eventually
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

ROOT = Path(__file__).parents[2]
PURE = "pure"
IN_THE_WAY = ("api", "mirror", "monitor", "pinot", "stack")


class Installed:
    """An environment with one wheel and its dependencies."""

    def __init__(self, wheel: Path, folder: Path, *others: Path) -> None:
        self.wheel = wheel
        self.folder = folder
        self.python = folder / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.packages = folder / "lib" / version / "site-packages"
        # Without their .pth files, which would add the checkout installed there too.
        (self.packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])
        for each in (wheel, *others):
            with zipfile.ZipFile(each) as archive:
                archive.extractall(self.packages)

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the Python of the environment outside of the checkout."""
        plain = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith("HEADRACE_") and key != "PYTHONPATH"
        }
        return subprocess.run(
            [str(self.python), *arguments],
            cwd=self.folder,
            env=plain | variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )


def built(kind: str, folder: Path, project: Path = ROOT) -> Path:
    """Build and return a wheel of a project of this checkout."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=project,
        env=os.environ | {"HEADRACE_WHEEL": kind},
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def is_compiled() -> bool:
    """Return whether this machine can compile; the wheel then contains the compiled modules."""
    return build() == DONE


@pytest.fixture(scope="module")
def installed(is_compiled: bool, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return the wheel for this platform, installed beside packages with the names of our own."""
    assert is_compiled in (True, False)
    wheel = built("", tmp_path_factory.mktemp("wheel"))
    environment = Installed(wheel, tmp_path_factory.mktemp("installed") / "env")
    for name in IN_THE_WAY:
        (environment.packages / f"{name}.py").write_text("OF_SOMEBODY_ELSE = True\n")
    return environment


def test_a_wheel_takes_one_import_name(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as archive:
        names = {name.partition("/")[0] for name in archive.namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"headrace"}
    done = installed.run("-c", "import api, mirror; print(api.OF_SOMEBODY_ELSE, mirror.OF_SOMEBODY_ELSE)")
    assert done.stdout.split() == ["True", "True"], done.stderr
    ours = installed.run("-c", "import headrace, api, mirror; print(api.__file__, mirror.__file__)")
    wings = str(installed.packages / "headrace" / "wings")
    assert [one.startswith(wings) for one in ours.stdout.split()] == [True, True], ours.stderr


def test_the_wheel_for_this_platform_is_compiled_and_the_pure_one_says_that_it_is_not(
    installed: Installed, is_compiled: bool, tmp_path: Path
) -> None:
    said = installed.run("-m", "headrace", "--version").stdout
    assert ("data plane compiled" in said) == is_compiled
    assert ("none-any" not in installed.wheel.name) == is_compiled
    pure = Installed(built(PURE, tmp_path), tmp_path / "env")
    assert pure.wheel.name.endswith("-py3-none-any.whl")
    assert "data plane interpreted" in pure.run("-m", "headrace", "--version").stdout


def test_machine_code_of_other_sources_is_not_used(installed: Installed, tmp_path: Path) -> None:
    other = Installed(installed.wheel, tmp_path / "env")
    with (other.packages / "headrace/wings/mirror/errors.py").open("a") as source:
        source.write("# changed\n")
    assert "data plane interpreted" in other.run("-m", "headrace", "--version").stdout


def test_a_wheel_has_no_servers_and_no_demo(installed: Installed) -> None:
    assert installed.run("-c", "import headrace, headrace_dev").returncode == 1
    assert installed.run("-c", "import headrace, stack; assert not stack.OF_SOMEBODY_ELSE").returncode == 1
    assert installed.run("-m", "headrace", "stack", "status").returncode == 2


def test_the_second_wheel_adds_the_servers_and_takes_no_other_name(
    installed: Installed, tmp_path: Path
) -> None:
    second = built("", tmp_path / "wheel", ROOT / "headrace_dev")
    with zipfile.ZipFile(second) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in names} == {"headrace", "headrace_dev"}
    with zipfile.ZipFile(installed.wheel) as archive:
        assert not names & set(archive.namelist())
    both = Installed(installed.wheel, tmp_path / "env", second)
    done = both.run("-m", "headrace_dev", "stack", "status", "--home", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    assert {server["state"] for server in json.loads(done.stdout)["servers"]} == {"down"}
    page = both.run("-m", "headrace_dev", "reference", "errors")
    assert page.stdout == (ROOT / "docs/errors.md").read_text(encoding="utf-8"), page.stderr


def test_an_installed_headrace_serves_and_copies(
    installed: Installed, is_compiled: bool, kafka_pair: KafkaPair, new_instance: NewInstance
) -> None:
    topic = f"installed-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, 2, retention_ms="-1")
    records = some_records(2, 200, "a")
    produce(kafka_pair.source.address, topic, records)
    instance = new_instance("one", str(installed.python))
    create_datastream(instance, "installed", topic)
    wait_for_copy(kafka_pair, topic, len(records))
    assert instance.health()["data_plane"] == ("compiled" if is_compiled else "interpreted")
    sides = ["--source", kafka_pair.source.address, "--destination", kafka_pair.destination.address]
    chosen = ["--topics", topic, "--rename", "again.*"]
    done = installed.run("-m", "headrace", "copy", *sides, *chosen, "--until-end")
    assert done.returncode == 0, done.stderr
    assert installed.run("-m", "headrace", "verify", *sides, *chosen).returncode == 0


def test_two_commands_mirror_the_first_record(
    installed: Installed, kafka_pair: KafkaPair, tmp_path: Path
) -> None:
    topic = f"newcomer-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, 2, retention_ms="-1")
    port = str(free_ports(1)[0])
    variables = {
        "XDG_STATE_HOME": str(tmp_path),
        "HEADRACE_API__PORT": port,
        **service_environment(kafka_pair, topic),
    }
    log = tmp_path / "log"
    command = [str(installed.python), "-m", "headrace", "serve"]
    with ManagedProcess("headrace", command, {**variables, "PYTHONPATH": ""}, log, directory=tmp_path):
        with closing(RestClient(f"127.0.0.1:{port}")) as rest:
            eventually(lambda: rest.get("/v1/ready"), "an instance that serves")
        created = installed.run(
            *("-m", "headrace", "datastream", "create", "first", "--topics", topic, "--owner", "me"),
            **variables,
        )
        assert created.returncode == 0, created.stderr
        records = some_records(2, 1, "a")
        produce(kafka_pair.source.address, topic, records)
        eventually(lambda: read_all(kafka_pair.destination.address, topic), "records at the destination")
    assert (tmp_path / "headrace" / FILE_NAME).is_file()
