"""A real Prometheus on loopback, with the shipped rules and an Alertmanager."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from stack.ports import LOOPBACK, free_ports
from stack.process.managed_process import ManagedProcess
from tests.alertmanagers import ready
from tests.debian import PROMETHEUS

RULES: Final = Path(__file__).parents[1] / "deploy/prometheus/headrace.rules.yaml"
_FOR: Final = re.compile(r"\bfor: (\d+)([mh])")
_MINUTES: Final = {"m": 1, "h": 60}


def rule_names() -> list[str]:
    """Return the names of the shipped alerts."""
    document: Any = yaml.safe_load(RULES.read_text())
    return [rule["alert"] for group in document["groups"] for rule in group["rules"] if "alert" in rule]


def rules_in(minute_seconds: float) -> str:
    """Return the shipped rules, with each minute of the `for` of a rule shortened to `minute_seconds`."""

    def shortened(found: re.Match[str]) -> str:
        minutes = int(found[1]) * _MINUTES[found[2]]
        return f"for: {round(minutes * minute_seconds * 1000)}ms"

    return _FOR.sub(shortened, RULES.read_text())


@contextmanager
def running_prometheus(
    folder: Path, alertmanager_url: str, targets: Path, minute_seconds: float
) -> Iterator[str]:
    """Yield the address of a Prometheus that scrapes the targets in a file written by `scrape`."""
    port, rules = free_ports(1)[0], folder / "rules.yaml"
    rules.write_text(rules_in(minute_seconds))
    file = folder / "prometheus.yml"
    host = alertmanager_url.removeprefix("http://")
    document = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [host]}]}]},
        "scrape_configs": [
            {"job_name": "headrace", "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}]}
        ],
    }
    file.write_text(json.dumps(document))
    command = [
        PROMETHEUS.required_path(),
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address={LOOPBACK}:{port}",
    ]
    log = folder / "prometheus.log"
    with ready(ManagedProcess("prometheus", command, {}, log, grace_seconds=5), port, log) as url:
        yield url


def scrape(targets: Path, addresses: Sequence[str]) -> None:
    """Replace the scraped addresses, each `host:port`."""
    draft = targets.with_suffix(".draft")
    draft.write_text(json.dumps([{"targets": list(addresses)}]))
    draft.replace(targets)


def sees_metrics(url: str) -> bool:
    """Return whether the Prometheus at this address has metrics of the leader."""
    query = {"query": "headrace_staying_instances"}
    found: dict[str, Any] = httpx.get(f"{url}/api/v1/query", params=query).json()
    return bool(found["data"]["result"])
