"""An address that accepts connections and never responds, such as a port of another service."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from mirror.adapters.system_clock import SystemClock
from mirror.client.access import ClusterAccess, endpoints
from mirror.errors import TimedOut
from mirror.model.identifiers import ClusterRef
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions

pytestmark = pytest.mark.deep


@pytest.fixture
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_an_address_that_never_answers_is_named_with_what_to_look_at(silent: str) -> None:
    access = ClusterAccess(endpoints(silent))
    options = CopyingOptions(request_timeout_seconds=0.2)
    bench = EngineContext(lambda _: access, options, EngineIdentity("test"), SystemClock())
    cluster = bench.cluster(ClusterRef("there"))
    try:
        with pytest.raises(TimedOut, match=f"{silent} accepts connections"):
            bench.run(cluster.patiently(cluster.all_topics))
    finally:
        bench.close()
