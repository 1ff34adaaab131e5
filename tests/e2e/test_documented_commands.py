"""Run the commands of every documentation page in order against a service with clusters."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from headrace.__main__ import main
from tests.documented import LOADS_CSV, Documented, documented_commands
from tests.example_package import python_path
from tests.kafka_data import commit_positions, make_topic, produce
from tests.mirrored import some_records
from tests.running import RunningInstance
from tests.servers import NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

TOPICS: Final = {"orders": 2, "clicks": 2, "views": 1, "payments": 14, "refunds": 2}
"""Topics used on the pages, with their numbers of partitions."""

ORDERS: Final = (
    "datastream create orders --source east --destination west --owner team-a --topics payments|refunds"
)
SHARED: Final = "datastream create shared --source east --destination west --owner team-b --topics clicks"

BEFORE: Final = {
    "datastream pause-group": (
        f"{SHARED} --set system.taskPrefix=shared",
        "datastream wait shared --for caught-up --timeout 10m",
    ),
    "slo export": ("slo import objectives.yaml --by tests",),
    "datastream create orders-back": ("datastream delete orders-back --wait",),
}
"""Earlier steps of a reader that are in no block of the page. They may fail if already done."""

OBJECTIVES: Final = """\
apiVersion: openslo/v1
kind: SLO
metadata:
  name: orders
spec:
  service: orders
  indicator:
    metadata:
      name: orders
    spec:
      thresholdMetric:
        metricSource:
          type: Headrace
          spec: {datastream: orders, percentile: 99.0, window: 60s}
  timeWindow:
  - {duration: 30d, isRolling: true}
  budgetingMethod: Occurrences
  objectives:
  - {op: lte, value: 2000, targetPercent: 99.5}
"""

MAY_FIND_SOMETHING: Final = ("doctor", "monitor --once", "apply -f datastreams.yaml --check")
"""Commands whose exit status reports findings."""

PAGES: Final = {
    page: list(commands)
    for page, commands in groupby(
        (one for one in documented_commands() if one.needs_service), lambda one: one.page
    )
}


class Shell:
    """Runs lines of pages in this process: `headrace` with its arguments and redirections."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def run(self, line: str) -> tuple[int, str]:
        """Run a line; return the exit status and the output."""
        words = shlex.split(line, comments=True)
        if "--watch" in words:
            return self._watch(words)
        at = words.index(">") if ">" in words else len(words)
        self._monkeypatch.setattr(sys, "argv", ["headrace", *words[:at]])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        for file in words[at + 1 :]:
            Path(file).write_text(out)
        return int(ended.value.code or 0), out + err

    @staticmethod
    def _watch(words: list[str]) -> tuple[int, str]:
        """Run a command that runs until Ctrl-C as a process, and interrupt it once it has printed a line."""
        command = [sys.executable, "-m", "headrace", *words]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as running:
            assert running.stdout is not None
            first = running.stdout.readline()
            running.send_signal(signal.SIGINT)
            rest = running.stdout.read()
        return running.returncode, first + rest


@pytest.fixture
def shell(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    new_kafka: NewKafka,
) -> Iterator[Shell]:
    """Return a shell with the settings of two instances on separate clusters.

    Shared clusters could not have topics with the names used on pages.

    Each cluster has two aliases, as some pages use east and west. The instances have the package of the page
    on plug-ins.
    """
    with ThreadPoolExecutor() as pool:
        source, destination = (one.address for one in pool.map(new_kafka, ("source", "destination")))
    clusters = {"source": source, "destination": destination, "east": source, "west": destination}
    environment = {
        "PYTHONPATH": python_path(tmp_path),
        "HEADRACE_COORDINATION__CLUSTER": "destination",
        "HEADRACE_COMMANDS__AUDIT_KEY_FILE": str(tmp_path / "audit.pem"),
        "HEADRACE_MIRROR__WORKER__PROCESSES": "1",
        "HEADRACE_MIRROR__WORKER__METRICS_INTERVAL_SECONDS": "1",
        "HEADRACE_MIRROR__LEADER__DISCOVERY_INTERVAL_SECONDS": "0.5",
        **{f"HEADRACE_CLUSTERS__{name.upper()}__BOOTSTRAP_SERVERS": at for name, at in clusters.items()},
    }
    for name, partitions in TOPICS.items():
        make_topic(source, name, partitions)
        produce(source, name, some_records(partitions, 20))
    commit_positions(source, "billing", {("orders", 0): 5, ("orders", 1): 3})
    instances = [RunningInstance(f"instance-{letter}", tmp_path, environment) for letter in "ab"]
    try:
        ports = [instance.start().address.rpartition(":")[2] for instance in instances]
        for key, value in (environment | {"HEADRACE_API__PORT": ports[0], "COLUMNS": "1000"}).items():
            monkeypatch.setenv(key, value)
        monkeypatch.chdir(tmp_path)
        yield Shell(monkeypatch, capsys)
    finally:
        for instance in instances:
            instance.stop()


def shortened(line: str) -> str:
    """Add `--yes` to a command that would ask for confirmation, and measure a canary for seconds only."""
    if line.startswith("canary"):
        return line.replace("--for 10m", "--for 5s")
    asks = line.startswith("apply") and not any(way in line for way in ("--yes", "--dry-run", "--check"))
    return f"{line} --yes" if asks else line


def run_page(shell: Shell, commands: list[Documented]) -> Iterator[str]:
    """Run the commands of a page, yield their failures, and delete its datastreams."""
    known = []
    if not any(" create " in one.words for one in commands):
        known.append("orders")
        assert shell.run(ORDERS)[0] == 0
        assert shell.run("datastream wait orders --for caught-up --timeout 10m")[0] == 0
    for command in commands:
        for beginning, earlier in BEFORE.items():
            if command.words.startswith(beginning):
                for line in earlier:
                    shell.run(line)
        status, said = shell.run(shortened(command.words))
        allowed = (0, 1, 3) if command.words.startswith(MAY_FIND_SOMETHING) else (0,)
        if status not in allowed:
            yield f"{command.page}: {command.line}\n  {status}: {said}"
        if command.words.startswith("datastream create") and "--dry-run" not in command.words:
            known.append(command.words.split()[2])
            shell.run(f"datastream wait {known[-1]} --for caught-up --timeout 10m")
    for name in {*known, "shared"}:
        shell.run(f"datastream delete {name} --wait --timeout 10m")


# A command leaves connections open until its process exits, which does not happen here.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_documented_commands_do_what_their_pages_say(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "loads.csv").write_text(LOADS_CSV)
    (tmp_path / "objectives.yaml").write_text(OBJECTIVES)
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "audit.pem").write_bytes(private)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "audit-public.pem").write_bytes(public)
    (tmp_path / "more/views.yaml").write_text(
        "name: views\nowner: team-c\nsource: {cluster: east, topics: views}\ndestination: {cluster: west}\n"
    )
    assert len(PAGES) > 8
    wrong = [one for commands in PAGES.values() for one in run_page(shell, commands)]
    assert not wrong, "\n".join(wrong)
