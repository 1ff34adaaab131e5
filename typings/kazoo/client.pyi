from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from kazoo.protocol.states import WatchedEvent, ZnodeStat

_T = TypeVar("_T")

class AsyncResult(Generic[_T]):
    def get(self, block: bool = ..., timeout: float | None = ...) -> _T: ...

class KazooClient:
    client_id: tuple[int, bytes] | None
    state: str
    connected: bool
    _connection: Any
    def __init__(
        self,
        hosts: str = ...,
        timeout: float = ...,
        client_id: tuple[int, bytes] | None = ...,
        *,
        connection_retry: Any = ...,
        command_retry: Any = ...,
        default_acl: Sequence[Any] | None = ...,
        auth_data: Sequence[tuple[str, str]] | None = ...,
        sasl_options: dict[str, Any] | None = ...,
        randomize_hosts: bool = ...,
        logger: Any = ...,
        use_ssl: bool = ...,
        ca: str | None = ...,
        certfile: str | None = ...,
        keyfile: str | None = ...,
        verify_certs: bool = ...,
    ) -> None: ...
    def start(self, timeout: float = ...) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...
    def add_listener(self, listener: Callable[[str], object]) -> None: ...
    def create_async(
        self,
        path: str,
        value: bytes = ...,
        acl: Any = ...,
        ephemeral: bool = ...,
        sequence: bool = ...,
        makepath: bool = ...,
    ) -> AsyncResult[str]: ...
    def ensure_path_async(self, path: str) -> AsyncResult[str]: ...
    def sync_async(self, path: str) -> AsyncResult[str]: ...
    def get_async(
        self, path: str, watch: Callable[[WatchedEvent], object] | None = ...
    ) -> AsyncResult[tuple[bytes, ZnodeStat]]: ...
    def exists_async(
        self, path: str, watch: Callable[[WatchedEvent], object] | None = ...
    ) -> AsyncResult[ZnodeStat | None]: ...
    def get_children_async(
        self, path: str, watch: Callable[[WatchedEvent], object] | None = ...
    ) -> AsyncResult[list[str]]: ...
    def set_async(self, path: str, value: bytes, version: int = ...) -> AsyncResult[ZnodeStat]: ...
    def delete_async(self, path: str, version: int = ...) -> AsyncResult[bool]: ...
