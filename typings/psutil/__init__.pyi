"""The part of psutil that Headrace uses."""

from typing import Final, NamedTuple

CONN_LISTEN: Final[str]

class Error(Exception): ...
class NoSuchProcess(Error): ...
class AccessDenied(Error): ...

class Address(NamedTuple):
    ip: str
    port: int

class Connection(NamedTuple):
    fd: int
    family: int
    type: int
    laddr: Address
    raddr: Address
    status: str
    pid: int | None

class Memory(NamedTuple):
    rss: int
    vms: int

class CpuTimes(NamedTuple):
    user: float
    system: float

class Process:
    pid: int
    def __init__(self, pid: int | None = ...) -> None: ...
    def name(self) -> str: ...
    def status(self) -> str: ...
    def create_time(self) -> float: ...
    def cpu_times(self) -> CpuTimes: ...
    def memory_info(self) -> Memory: ...
    def children(self, recursive: bool = ...) -> list[Process]: ...
    def is_running(self) -> bool: ...

STATUS_ZOMBIE: Final[str]

def net_connections(kind: str = ...) -> list[Connection]: ...
def pid_exists(pid: int) -> bool: ...
