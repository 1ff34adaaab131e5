"""List of a demonstration's running processes in a file, so that other commands can find and end them."""

from __future__ import annotations

from pathlib import Path

from stack.folders import stack_home
from stack.process.records import ProcessRecord, read_record, write_record
from stack.supervisor import ServerStatus, Stack


def demo_home() -> Path:
    """Return the folder of the demonstration's data and logs, next to the folder of `headrace-dev stack`."""
    return stack_home().with_name("demo")


def remember(home: Path, record: ProcessRecord) -> None:
    """Record a process that the demonstration leaves running."""
    write_record(home / "running" / f"{record.name}.json", record)


def status_of(home: Path) -> list[ServerStatus]:
    """Return the status of the servers and processes of the demonstration in `home`, except those stopped on
    purpose; empty after the demonstration has ended."""
    servers = [server for server in Stack(home / "stack").status() if server.state != "down"]
    return servers + [_status(home, record) for record in _released(home)]


def end_released(home: Path) -> list[str]:
    """Terminate the processes that an earlier demonstration left running, and return their names."""
    ended = []
    for record in _released(home):
        if record.is_alive():
            record.end(10.0)
            ended.append(record.name)
    for file in (home / "running").glob("*.json"):
        file.unlink()
    return ended


def _released(home: Path) -> list[ProcessRecord]:
    records = [read_record(file) for file in sorted((home / "running").glob("*.json"))]
    return [record for record in records if record is not None]


def _status(home: Path, record: ProcessRecord) -> ServerStatus:
    log = str(home / f"{record.name}.log")
    memory_mib = record.memory_mib()
    if memory_mib is None:
        return ServerStatus(record.name, "died", record.address, log_file=log)
    return ServerStatus(record.name, "up", record.address, record.pid, "", memory_mib, log)
