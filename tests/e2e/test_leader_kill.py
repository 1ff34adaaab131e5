"""Kill of the leader during the changes of twenty clients: every acknowledged change is stored."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import pytest

from tests.e2e.conftest import NewInstance
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance

pytestmark = [pytest.mark.servers, pytest.mark.deep]

CLIENTS: Final = 20
SHARED: Final = 4
ENOUGH: Final = 60
"""Number of acknowledged changes before the kill, and after it."""
_STATUS: Final = {"pause": "PAUSED", "resume": "READY"}


@dataclass
class History:
    """Responses to clients. `written`: acknowledged marks by datastream and base version.

    `refused`: marks of rejected changes; `unknown`: marks of changes without a response. `statuses`: possible
    final statuses by datastream.
    """

    created: set[str] = field(default_factory=set)
    written: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    marks: dict[str, set[str]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    statuses: dict[str, set[str]] = field(default_factory=dict)
    acknowledged: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def await_more(self, count: int) -> None:
        wanted = self.acknowledged + count
        wait_until(lambda: self.acknowledged >= wanted, f"{count} changes more are acknowledged")


class Writer:
    """One client: creates datastreams, marks shared ones, pauses and resumes a separate one."""

    def __init__(
        self, number: int, instances: Sequence[RunningInstance], history: History, ended: threading.Event
    ) -> None:
        self.number = number
        self._clients = [
            httpx.Client(base_url=f"http://{one.address}", timeout=PATIENCE_SECONDS) for one in instances
        ]
        self._at = number
        self._history = history
        self._ended = ended

    def run(self) -> None:
        mine = f"own-{self.number}"
        self._create(mine)
        attempt = 0
        while not self._ended.is_set():
            attempt += 1
            self._mark(f"shared-{(self.number + attempt) % SHARED}", f"{self.number}-{attempt}")
            self._halt(mine, "pause" if attempt % 2 else "resume")
            if attempt % 3 == 0:
                self._create(f"more-{self.number}-{attempt}")

    def close(self) -> None:
        for one in self._clients:
            one.close()

    def _ask(self, method: str, path: str, **more: Any) -> httpx.Response | None:
        """Send a request; return None if its outcome is unknown, and use another instance from then on."""
        try:
            answer = self._clients[self._at % len(self._clients)].request(method, path, **more)
        except httpx.TransportError:
            answer = None
        if answer is None or answer.status_code >= 500:
            self._at += 1
            return None
        return answer

    def _create(self, name: str) -> None:
        """Retry until a response confirms that the datastream exists."""
        answer = None
        while answer is None and not self._ended.is_set():
            answer = self._ask("POST", "/v1/datastreams", json=a_body(name))
        if answer is not None:
            assert answer.status_code in {201, 409}, answer.text
            with self._history.lock:
                self._history.created.add(name)
                self._history.acknowledged += 1

    def _mark(self, name: str, mark: str) -> None:
        """Add a mark to the version that was read, and to no other."""
        read = self._ask("GET", f"/v1/datastreams/{name}")
        if read is None or "As-Of-Ms" in read.headers:
            return
        assert read.status_code == 200, read.text
        version, history = read.headers["ETag"], self._history
        patch = {"metadata": {f"mark-{mark}": "x"}}
        answer = self._ask("PATCH", f"/v1/datastreams/{name}", json=patch, headers={"If-Match": version})
        with history.lock:
            if answer is None:
                history.unknown.add(f"mark-{mark}")
            elif answer.status_code == 200:
                history.written.setdefault((name, version), []).append(mark)
                history.marks.setdefault(name, set()).add(f"mark-{mark}")
                history.acknowledged += 1
            else:
                assert answer.status_code in {409, 412}, answer.text
                history.refused.add(f"mark-{mark}")

    def _halt(self, name: str, action: str) -> None:
        answer = self._ask("POST", f"/v1/datastreams/{name}/{action}", json={})
        history = self._history
        with history.lock:
            if answer is None:
                history.statuses.setdefault(name, {"INITIALIZING", "READY"}).add(_STATUS[action])
            elif answer.status_code == 200:
                history.statuses[name] = {_STATUS[action]}
                history.acknowledged += 1
            else:  # not possible in its current state, or too many concurrent changes
                assert answer.status_code == 409, answer.text


def a_body(name: str) -> dict[str, Any]:
    """Return a definition that selects no existing topic."""
    return {
        "name": name,
        "source": {"cluster": "source", "topics": f"none-of-{name}"},
        "destination": {"cluster": "destination", "name": f"{name}.*"},
        "metadata": {"owner": "tests"},
    }


def test_what_was_acknowledged_is_stored_and_no_version_was_overwritten_unseen(
    new_instance: NewInstance,
) -> None:
    instances = [new_instance(name) for name in ("one", "two")]
    first, second = instances
    wait_until(lambda: len(first.rest.get("/v1/instances")) == 2, "both instances have joined")
    leader = first if first.rest.get("/v1/instances")[0]["name"] == first.name else second
    other = second if leader is first else first
    for number in range(SHARED):
        first.rest.post("/v1/datastreams", a_body(f"shared-{number}"))
    history, ended = History(), threading.Event()
    writers = [Writer(number, instances, history, ended) for number in range(CLIENTS)]
    failures: list[BaseException] = []
    threads = [threading.Thread(target=_noting, args=(one.run, failures)) for one in writers]
    try:
        for thread in threads:
            thread.start()
        history.await_more(ENOUGH)
        leader.kill()
        history.await_more(ENOUGH)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        for one in writers:
            one.close()
    assert not failures, failures
    wait_until(other.is_leading, "the other instance leads")
    wait_until(lambda: "INITIALIZING" not in statuses(other).values(), "every new datastream is initialized")
    check(history, other)


def _noting(run: Callable[[], None], failures: list[BaseException]) -> None:
    try:
        run()
    except BaseException as error:  # noqa: BLE001 - raised in the test's own thread
        failures.append(error)


def statuses(instance: RunningInstance) -> dict[str, str]:
    return {one["name"]: one["status"] for one in instance.rest.get("/v1/datastreams")}


def check(history: History, instance: RunningInstance) -> None:
    """Compare the responses with the stored definitions."""
    with closing(httpx.Client(base_url=f"http://{instance.address}", timeout=PATIENCE_SECONDS)) as client:
        stored: list[dict[str, Any]] = client.get("/v1/datastreams").json()
    names = Counter(one["name"] for one in stored)
    assert not history.created - names.keys(), "an acknowledged creation is lost"
    assert set(names.values()) == {1}
    assert {version: marks for version, marks in history.written.items() if len(marks) > 1} == {}
    for one in stored:
        name, kept = one["name"], {key for key in one["metadata"] if key.startswith("mark-")}
        assert not history.marks.get(name, set()) - kept, f"{name}: an acknowledged change is lost"
        assert not kept & history.refused, f"{name}: a rejected change is stored"
        assert kept <= history.marks.get(name, set()) | history.unknown
        if name in history.statuses:
            assert one["status"] in history.statuses[name], name
