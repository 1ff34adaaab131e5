"""Instance with authentication, with one datastream."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path

from api.access.rights import Principal, Role
from api.access.tokens import add_entry, new_token
from bench.coordination.rig.service import SESSION_SECONDS, started
from stack.process.wait import wait_until
from tests.running import RunningInstance


@dataclass(frozen=True)
class Guarded:
    """Two instances of one service; `open_instance` has authentication off."""

    instance: RunningInstance
    open_instance: RunningInstance
    viewer: str
    operator: str


@contextmanager
def guarded(tokens: int = 1_000) -> Iterator[Guarded]:
    """Run the service with that many tokens for the context."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        site = started(stack, (), {})
        environment = {
            **site.store.environment(SESSION_SECONDS),
            "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": site.pair.source.address,
            "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": site.pair.target.address,
            "HEADRACE_MIRROR__WORKER__PROCESSES": "1",
        }
        file = folder / "tokens"
        viewer, operator = (_token(file, Role.VIEWER), _token(file, Role.OPERATOR))
        _fill(file, tokens)
        asking = {
            "HEADRACE_API__ACCESS__TOKEN_FILE": str(file),
            "HEADRACE_API__ACCESS__OPEN_TO_ALL": '["health", "metrics"]',
            "HEADRACE_API__LIMITS__CALLS_PER_SECOND": "0",
        }
        instances = []
        for name, more in (("open", {}), ("asking", asking)):
            instances.append(RunningInstance(name, folder, environment | more))
            stack.callback(instances[-1].stop)
            instances[-1].start()
        open_instance, instance = instances
        body = {
            "name": "bench",
            "source": {"cluster": "source", "topics": "nothing"},
            "destination": {"cluster": "destination"},
            "owner": "bench",
        }
        open_instance.rest.post("/v1/datastreams", body)
        wait_until(
            lambda: open_instance.rest.get("/v1/datastreams/bench")["status"] == "READY", 60, "bench is READY"
        )
        wait_until(lambda: all(map(_is_well, instances)), 120, "both instances are healthy")
        yield Guarded(instance, open_instance, viewer, operator)


def _is_well(instance: RunningInstance) -> bool:
    with closing(HTTPConnection(instance.address, timeout=60)) as client:
        client.request("GET", "/v1/health")
        return client.getresponse().status == HTTPStatus.OK


def _token(file: Path, role: Role) -> str:
    token, entry = new_token(Principal(role.value, role), int(time.time() * 1000))
    add_entry(file, entry)
    return token


def _fill(file: Path, count: int) -> None:
    """Add other tokens to the file, which is reread as a whole when it changes."""
    more = (new_token(Principal(f"other-{number}", Role.VIEWER), 1)[1].line() for number in range(count))
    file.write_text(file.read_text() + "".join(f"{line}\n" for line in more))


def percentiles(times: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, p99 and the maximum."""
    ordered = sorted(times)
    return ordered[len(ordered) // 2], ordered[-max(1, len(ordered) // 100)], ordered[-1]
