"""The conditions of a measurement, printed above every figure."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

_PACKAGES = ("confluent-kafka", "crc32c", "kafka-python", "kazoo", "numpy", "ortools", "pinotdb", "pyspark")


def print_machine() -> None:
    """Processor, memory, load, and versions of what is measured."""
    with open("/proc/cpuinfo") as lines:
        models = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(f"machine: {os.cpu_count()} cores of {', '.join(models) or platform.machine()}, {memory:.0f} GiB")
    print(f"load average: {' '.join(f'{value:.1f}' for value in os.getloadavg())}, {platform.platform()}")
    packages = " ".join(f"{name} {version(name)}" for name in _PACKAGES)
    print(f"versions: Python {platform.python_version()} {packages}\n")
