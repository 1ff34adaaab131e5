"""Renders the chart to deploy/kubernetes, with its default values and for one instance.

Run `python -m deploy.helm.render`.

Uses `helm` on the PATH, or the package helm-python-sdk (Helm as a library), which is not among the
requirements because of its 75 MB. The first line of the file contains the digest of the chart from which it
was made.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml

CHART: Final = Path(__file__).with_name("headrace")
VALUES: Final = CHART.with_name("values")
MANIFESTS: Final = CHART.parents[1] / "kubernetes/headrace.yaml"
ONE_INSTANCE: Final = MANIFESTS.with_name("one-instance.yaml")
"""Manifests with the values of the same name."""
_RELEASE: Final = "headrace"
_SECONDS: Final = 60


def digest() -> str:
    """Return the digest of all files of the chart and of the values."""
    found = hashlib.sha256()
    files = (one for folder in (CHART, VALUES) for one in folder.rglob("*") if one.is_file())
    for file in sorted(files):
        found.update(str(file.relative_to(CHART.parent)).encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


def values_of(size: str) -> dict[str, Any]:
    """Return the values of a file in `values`."""
    found: Any = yaml.safe_load((VALUES / f"{size}.yaml").read_text(encoding="utf-8"))
    return dict(found)


def can_render() -> bool:
    """Return whether Helm is available."""
    return shutil.which("helm") is not None or importlib.util.find_spec("helm_python") is not None


def rendered(values: dict[str, Any] | None = None) -> str:
    """Return all manifests; `values` override the chart's defaults. Raises ImportError without Helm."""
    if shutil.which("helm"):
        words = ["helm", "template", _RELEASE, str(CHART), "--namespace", _RELEASE, "--values", "-"]
        given = json.dumps(values or {})
        done = subprocess.run(
            words, input=given, capture_output=True, check=True, text=True, timeout=_SECONDS
        )
        return done.stdout
    chart = importlib.import_module("helm_python.chart").Chart.load(CHART)
    parts: dict[str, str] = chart.render(values, name=_RELEASE, namespace=_RELEASE)
    return "".join(f"---\n{text.strip()}\n" for _, text in sorted(parts.items()) if text.strip())


def lint() -> list[str]:
    """Return Helm's complaints about the chart. Raises ImportError without Helm."""
    if shutil.which("helm"):
        words = ["helm", "lint", "--strict", str(CHART)]
        done = subprocess.run(words, capture_output=True, check=False, text=True, timeout=_SECONDS)
        return [done.stdout + done.stderr] if done.returncode else []
    report = importlib.import_module("helm_python.chart").lint(CHART, strict=True, kube_version="v1.29.0")
    return [*report["errors"], *(one["error"] for one in report["messages"] if one["severity"] > 1)]


if __name__ == "__main__":
    head = f"# Generated from the chart {digest()} by `python -m deploy.helm.render`\n"
    MANIFESTS.write_text(head + rendered(), encoding="utf-8")
    ONE_INSTANCE.write_text(head + rendered(values_of(ONE_INSTANCE.stem)), encoding="utf-8")
    sys.exit(1 if lint() else 0)
