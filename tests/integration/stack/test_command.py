"""Run `headrace-dev stack …` like an operator."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from stack.ports import StackPorts, is_free
from stack.process.records import ProcessRecord, identity_of, read_record, write_record
from stack.process.suspension import freeze
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import QUICK_JAVA, free_offset

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

_HEADRACE = str(Path(sys.executable).with_name("headrace-dev"))


class Command:
    """The real command with a separate home folder and ports."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.offset = free_offset(range(7_000, 22_000))
        self.ports = StackPorts().shifted(self.offset)

    def arguments(self, verb: str, *more: str) -> list[str]:
        offset = ["--port-offset", str(self.offset)] if verb == "up" else []
        return [_HEADRACE, "stack", verb, *more, "--home", str(self.home), *offset]

    def run(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.arguments(verb, *more),
            env={**os.environ, **QUICK_JAVA},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )

    def json(self, verb: str, *more: str) -> Any:
        answer = self.run(verb, *more, "--json")
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def servers(self, verb: str, *more: str) -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in self.json(verb, *more)["servers"]}

    def background(self, verb: str, *more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.arguments(verb, *more),
            env={**os.environ, **QUICK_JAVA},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    made = Command(tmp_path / "a home")
    yield made
    assert made.run("down").returncode == 0
    assert all(map(is_free, asdict(made.ports).values()))


def _gone(pids: list[int]) -> bool:
    return all(identity_of(pid) is None for pid in pids)


def _in_zookeeper(command: Command, action: Callable[[KazooClient], object]) -> object:
    client = KazooClient(hosts=f"127.0.0.1:{command.ports.zookeeper}")
    client.start(timeout=PATIENCE_SECONDS)
    with closing(client):
        try:
            return action(client)
        finally:
            client.stop()


def _ports_on_every_address(pids: set[int]) -> set[int]:
    """Return the ports on which the processes listen beyond loopback."""
    sockets = {
        link.readlink().name.removeprefix("socket:[").removesuffix("]")
        for pid in pids
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if link.readlink().name.startswith("socket:")
    }
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            address, _, port = fields[1].rpartition(":")
            if fields[3] == "0A" and fields[9] in sockets and not address.endswith("0100007F"):
                found.add(int(port, 16))
    return found


def test_the_whole_stack_comes_up_and_goes_down(command: Command) -> None:
    up = command.servers("up")
    assert [*up] == ["zookeeper", "source", "destination", "pinot"]
    assert {each["state"] for each in up.values()} == {"up"}

    again = command.run("up")
    assert again.returncode == 0
    assert again.stderr.count("already") == 4
    status = command.servers("status")
    assert {name: each["pid"] for name, each in status.items()} == {n: e["pid"] for n, e in up.items()}

    assert command.json("env") == {
        "zookeeper": f"127.0.0.1:{command.ports.zookeeper}",
        "source": f"127.0.0.1:{command.ports.source}",
        "destination": f"127.0.0.1:{command.ports.destination}",
        "pinot_controller": f"127.0.0.1:{command.ports.pinot_controller}",
        "pinot_broker": f"127.0.0.1:{command.ports.pinot_broker}",
    }
    assert _ports_on_every_address({each["pid"] for each in up.values()}) == set()
    log = command.json("logs", "source", "--lines", "500")
    assert any("Kafka Server started" in line for line in log["lines"])

    down = command.servers("down")
    assert {each["state"] for each in down.values()} == {"down"}
    assert _gone([each["pid"] for each in up.values()])


def test_env_prints_exports_that_a_shell_takes(command: Command) -> None:
    exports = command.run("env").stdout
    script = f"{exports}\nprintenv HEADRACE_ZOOKEEPER__SERVERS HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS"
    answer = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["127.0.0.1:2181", "127.0.0.1:9092"]
    assert exports.count("export HEADRACE_") == 5


def test_the_offset_is_remembered(command: Command) -> None:
    command.servers("up", "zookeeper")
    assert command.json("env")["source"] == f"127.0.0.1:{command.ports.source}"
    other = [_HEADRACE, "stack", "up", "zookeeper", "--home", str(command.home), "--port-offset", "0"]
    answer = subprocess.run(other, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert "other ports" in answer.stderr


def test_data_outlive_down_and_fresh_wipes_them(command: Command) -> None:
    command.servers("up", "zookeeper")
    _in_zookeeper(command, lambda client: client.create_async("/kept", b"1").get(timeout=PATIENCE_SECONDS))
    command.servers("down")
    command.servers("up", "zookeeper")
    assert (
        _in_zookeeper(command, lambda client: client.exists_async("/kept").get(timeout=PATIENCE_SECONDS))
        is not None
    )
    command.servers("up", "zookeeper", "--fresh")
    assert (
        _in_zookeeper(command, lambda client: client.exists_async("/kept").get(timeout=PATIENCE_SECONDS))
        is None
    )


def test_a_server_that_died_is_seen_and_started_again(command: Command) -> None:
    first = command.servers("up", "zookeeper")["zookeeper"]["pid"]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: identity_of(first) is None)
    status = command.run("status", "--json")
    assert status.returncode == 1
    assert json.loads(status.stdout)["servers"][0]["state"] == "died"
    assert command.servers("up", "zookeeper")["zookeeper"]["state"] == "up"


def test_a_frozen_server_is_not_ready(command: Command) -> None:
    pid = command.servers("up", "zookeeper")["zookeeper"]["pid"]
    freeze(pid)
    status = command.run("status", "zookeeper", "--json")
    assert status.returncode == 1
    shown = json.loads(status.stdout)["servers"][0]
    assert shown["state"] == "not ready"
    assert "ZooKeeper" in shown["lacks"]


def test_a_stale_record_harms_nobody(command: Command) -> None:
    """Its process id now belongs to another process."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        record = command.home / "running" / "zookeeper.json"
        write_record(record, ProcessRecord("zookeeper", stranger.pid, "an earlier boot/1"))
        assert command.servers("up", "zookeeper")["zookeeper"]["pid"] != stranger.pid
        mine = read_record(record)
        assert mine is not None
        command.servers("down")
        assert identity_of(mine.pid) is None
        write_record(record, ProcessRecord("zookeeper", stranger.pid, "an earlier boot/1"))
        command.servers("down")
        assert stranger.poll() is None
        assert command.servers("status")["zookeeper"]["state"] == "down"
        stranger.kill()


def test_a_busy_port_is_named_with_its_user(command: Command) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", command.ports.zookeeper))
        listener.listen()
        answer = command.run("up", "zookeeper")
    assert answer.returncode == 1
    assert f"port {command.ports.zookeeper}, " in answer.stderr
    assert f"(process {os.getpid()})" in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_breaking_off_up_leaves_no_process(command: Command, number: signal.Signals) -> None:
    log = command.home / "source" / "node-1" / "source.log"
    with command.background("up", "zookeeper", "source", "destination") as up:
        wait_until(lambda: _running(up) and log.exists(), "the broker is starting")
        java = wait_until(lambda: _processes_of(command.home))
        up.send_signal(number)
        assert up.wait(PATIENCE_SECONDS) == (-number if number == signal.SIGKILL else 128 + number)
    if number == signal.SIGKILL:
        wait_until(lambda: _gone(java) and not _processes_of(command.home), "the started processes are gone")
    assert _gone(java)
    assert _processes_of(command.home) == []
    states = {each["state"] for each in command.servers("status").values()}
    assert states == {"down"}


def _running(process: subprocess.Popen[str]) -> bool:
    """Return True; fail with the output if the process has exited."""
    assert process.poll() is None, process.communicate()
    return True


def _processes_of(home: Path) -> list[int]:
    """Return the processes with the folder in their command line, except administrative ones."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = line.read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(str(home).encode() in word for word in words) and b"--home" not in words:
            found.append(int(line.parent.name))
    return found


def test_what_ran_before_survives_a_broken_up(command: Command) -> None:
    before = command.servers("up", "zookeeper")["zookeeper"]["pid"]
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", command.ports.source_controller))
        listener.listen()
        assert command.run("up", "zookeeper", "source", "destination").returncode == 1
    status = command.servers("status")
    assert {name: each["state"] for name, each in status.items() if name != "pinot"} == {
        "zookeeper": "up",
        "source": "down",
        "destination": "down",
    }
    assert status["zookeeper"]["pid"] == before


def test_logs_are_followed(command: Command) -> None:
    command.servers("up", "zookeeper")
    file = Path(command.servers("status")["zookeeper"]["log_file"])
    with command.background("logs", "zookeeper", "--lines", "1", "-f") as following:
        assert following.stdout is not None
        assert following.stdout.readline()
        with file.open("a") as log:
            log.write("a line of ours\nand half")
        seen = ""
        while seen != "a line of ours\n":
            seen = following.stdout.readline()
            assert seen
        following.send_signal(signal.SIGINT)
        assert following.wait(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["up", "kafka"], "zookeeper, source, destination, pinot"),
        (["down", "kafka"], "'kafka'"),
        (["logs", "pinot"], "headrace-dev stack up pinot"),
    ],
)
def test_wrong_requests_fail_in_one_line(command: Command, arguments: list[str], says: str) -> None:
    answer = command.run(*arguments)
    assert answer.returncode != 0
    assert says in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1


def test_two_ups_at_once_do_not_mix(command: Command) -> None:
    with command.background("up", "zookeeper", "source") as first:
        wait_until((command.home / ".lock").exists)
        wait_until((command.home / "source").exists)
        second = command.run("up", "zookeeper", "source")
        assert second.returncode == 1
        assert "another process" in second.stderr
        assert first.wait(PATIENCE_SECONDS) == 0
