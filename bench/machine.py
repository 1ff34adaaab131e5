"""Describes the machine and the versions, for the lines above every figure."""

from __future__ import annotations

import mmap
import os
import platform
import time
from importlib.metadata import version

from headrace.process.cores import usable_cores
from headrace.process.machine_code import found
from stack.jars import ivy
from stack.jars.coordinates import artefacts_of

_PACKAGES = ("confluent-kafka", "crc32c", "kafka-python", "kazoo", "numpy", "ortools", "pinotdb", "pyspark")


def print_machine() -> None:
    """Print processor, memory, load average and the versions of the software measured."""
    with open("/proc/cpuinfo") as lines:
        models = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = f"{usable_cores()} of {os.cpu_count()} cores of {', '.join(models) or platform.machine()}"
    print(f"machine: {cores}, {memory:.0f} GiB")
    print(f"load average: {' '.join(f'{value:.1f}' for value in os.getloadavg())}, {platform.platform()}")
    packages = " ".join(f"{name} {version(name)}" for name in _PACKAGES)
    print(f"versions: Python {platform.python_version()} {packages}")
    servers = {one.name: one.version for name in ("kafka", "pinot") for one in artefacts_of(name)}
    kafka, pinot = servers["kafka_2.13"], servers["pinot-broker"]
    print(f"servers: Kafka {kafka} Pinot {pinot} ZooKeeper {_zookeeper()}")
    print(f"data plane: {'compiled' if found() else 'interpreted'}\n")


def _zookeeper() -> str:
    """Return the version of the ZooKeeper server, whose jar comes with PySpark."""
    (jar,) = ivy.pyspark_jars().glob("zookeeper-[0-9]*.jar")
    return jar.stem.removeprefix("zookeeper-")


def new_page_us(mib: int = 256) -> float:
    """Return the microseconds to touch the first byte of a new memory page.

    Page cache pages cost the same. A virtual machine may first have to get the page from its host.
    """
    size = os.sysconf("SC_PAGE_SIZE")
    with mmap.mmap(-1, mib * 2**20) as memory:
        began = time.perf_counter()
        for place in range(0, len(memory), size):
            memory[place] = 1
        return (time.perf_counter() - began) * 1e6 / (len(memory) // size)
