"""Attacks on a real listener: each is rejected and logged, and two tenants are copied meanwhile."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest

from api.access.rights import Principal, Role
from api.access.tokens import add_entry, new_token, revoke
from headrace.console.escapes import visible_lines
from mirror.control.audit import AUDIT
from mirror.coordination.stores.definition_document import to_document
from tests.builders import a_datastream
from tests.e2e.conftest import store_session, store_settings
from tests.kafka_data import grow_topic, make_topic, produce
from tests.mirrored import some_records, wait_for_copy
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long]

TENANTS: Final = ("orders", "bills")
PEOPLE: Final = {
    "viewer": Principal("wendy", Role.VIEWER),
    "orders": Principal("otto", Role.OWNER, frozenset({"team-orders"})),
    "bills": Principal("bella", Role.OWNER, frozenset({"team-bills"})),
    "operator": Principal("petra", Role.OPERATOR),
}
EVIL: Final = "http://evil.example"
ON_A_TERMINAL: Final = "\x1b[2J\x1b]0;owned\x07[red]x[/red][link=http://evil.example]"
MOST_BYTES: Final = 900_000


class Besieged:
    """One instance with authentication, and the datastreams of two tenants."""

    def __init__(self, folder: Path, kafka_pair: KafkaPair) -> None:
        mark = uuid4().hex[:8]
        self.kafka_pair, self.service_name = kafka_pair, f"attacks-{mark}"
        self.topics = {name: f"{name}-{mark}" for name in TENANTS}
        self.copied = dict.fromkeys(TENANTS, 0)
        file = self.token_file = folder / "tokens"
        self.tokens = {name: self._add(file, who) for name, who in PEOPLE.items()}
        source = kafka_pair.source.address
        self.other_name = f"localhost:{source.rpartition(':')[2]}"
        settings = {
            **{key.upper(): value for key, value in store_settings(self.service_name).items()},
            "CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": source,
            "CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": kafka_pair.destination.address,
            "CLUSTERS__TWIN__BOOTSTRAP_SERVERS": self.other_name,
            "MIRROR__DEFINITIONS__ADDRESSES": '["localhost:*"]',
            "MIRROR__PROGRESS_TOPIC": f"progress-{mark}",
            "MIRROR__METRICS_TOPIC": f"metrics-{mark}",
            "MIRROR__EVENTS_TOPIC": f"events-{mark}",
            "MIRROR__WORKER__PROCESSES": "1",
            "MIRROR__LEADER__DISCOVERY_INTERVAL_SECONDS": "0.5",
            "API__LIMITS__HEAD_SECONDS": "3",
            "API__LIMITS__BODY_SECONDS": "3",
            "API__LIMITS__ANSWER_SECONDS": "3",
            "CLUSTERS__SOURCE__GROUPS": '["[!p]*"]',
            "MIRROR__DEFINITIONS__QUOTAS": '{"team-bills": {"partitions": 4}}',
            "API__LIMITS__CONNECTIONS_OF_ONE_ADDRESS": "150",
            "API__ACCESS__TOKEN_FILE": str(file),
            "API__ACCESS__OPEN_TO_ALL": '["health", "metrics"]',
        }
        self.instance = RunningInstance(
            "besieged", folder, {f"HEADRACE_{key}": value for key, value in settings.items()}
        )

        self._client = httpx.Client(timeout=PATIENCE_SECONDS, verify=False)

    def stop(self) -> None:
        """Stop in any state."""
        self._client.close()
        self.instance.stop()

    @staticmethod
    def _add(file: Path, who: Principal) -> str:
        token, entry = new_token(who, int(time.time() * 1000))
        add_entry(file, entry)
        return token

    def start(self) -> None:
        """Start with a datastream of each tenant."""
        self.instance.start()
        for name in TENANTS:
            make_topic(self.kafka_pair.source.address, self.topics[name], 1, retention_ms="-1")
            made = self.ask(name, "POST", "/v1/datastreams", a_body(name, self.topics[name], f"team-{name}"))
            assert made.status_code == 201, made.text
        self.serves()

    def ask(
        self, who: str, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """Send a request as one of the people, or without a token."""
        sent = {"Authorization": f"Bearer {self.tokens[who]}"} if who else {}
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        return self._client.request(
            method,
            f"http://{self.instance.address}{path}",
            content=content,
            headers={"Content-Type": "application/json", **sent, **(headers or {})},
        )

    def refuses(self, answer: httpx.Response, status: int, words: str = "", who: str = "") -> None:
        """Check for this status, these words in an error document, and a log line."""
        assert answer.status_code == status, answer.text
        body = answer.json()
        said = str(body.get("detail") or body["message"])
        assert said
        assert words in said
        assert "\x1b" not in answer.text
        assert "Traceback" not in answer.text
        line = self.logged("request refused", answer.headers["X-Request-ID"])
        assert line["reason"]
        assert line["remote"] == "127.0.0.1"
        if who:
            assert line["principal"] == PEOPLE[who].name

    def logged(self, event: str, request_id: str) -> dict[str, Any]:
        """Return the log line of a request."""

        def find() -> dict[str, Any] | None:
            lines = (json.loads(line) for line in self.instance.log_file.read_text().splitlines())
            of_call = (one for one in lines if request_id in (one.get("request_id"), one.get("call")))
            return next((one for one in of_call if one["event"] == event), None)

        found = wait_until(find, f"{event} of {request_id}")
        assert found is not None
        return found

    def serves(self) -> None:
        """Check that health and metrics respond, and that new records of both tenants are copied."""
        for path in ("/v1/health", "/health", "/metrics"):
            wait_until(lambda path=path: self.ask("", "GET", path).status_code == 200, path)  # type: ignore[misc]
        for name, topic in self.topics.items():
            produce(self.kafka_pair.source.address, topic, some_records(1, 3))
            self.copied[name] += 3
        for name, topic in self.topics.items():
            wait_for_copy(self.kafka_pair, topic, self.copied[name])
        for name in TENANTS:
            shown = self.ask("viewer", "GET", f"/v1/datastreams/{name}").json()
            assert (shown["status"], shown["owner"]) == ("READY", f"team-{name}")

    def connection(self) -> socket.socket:
        host, _, port = self.instance.address.rpartition(":")
        return socket.create_connection((host, int(port)), PATIENCE_SECONDS)


def a_body(name: str, topics: str, owner: str = "team-bills", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "source": {"cluster": "source", "topics": topics},
        "destination": {"cluster": "destination", "name": "copy.*"},
        "metadata": {"owner": owner},
        **more,
    }


def restli(name: str, source: str, owner: str = "team-bills", **metadata: str) -> dict[str, Any]:
    return {
        "name": name,
        "connectorName": "kafkaMirroringConnector",
        "source": {"connectionString": f"kafka://{source}/nothing"},
        "metadata": {"owner": owner, **metadata},
    }


@pytest.fixture(scope="module")
def _besieged(tmp_path_factory: pytest.TempPathFactory, kafka_pair: KafkaPair) -> Iterator[Besieged]:
    found = Besieged(tmp_path_factory.mktemp("attacks"), kafka_pair)
    try:
        found.start()
        yield found
    finally:
        found.stop()


@pytest.fixture
def besieged(_besieged: Besieged) -> Iterator[Besieged]:
    """Return the service, and check after the attack that it still works."""
    yield _besieged
    _besieged.serves()


CHANGES: Final[Sequence[tuple[str, str, object]]] = (
    ("POST", "/v1/datastreams/orders/pause", {}),
    ("POST", "/v1/datastreams/orders/stop", {}),
    ("DELETE", "/v1/datastreams/orders", None),
    ("PATCH", "/v1/datastreams/orders", {"limits": {"max_tasks": 1}}),
    ("POST", "/v1/datastreams/orders/pause-partitions", {"partitions": {"t": "*"}}),
    ("POST", "/v1/rebalance", {"datastream": "orders"}),
    ("POST", "/datastream/orders?action=pause", {}),
    ("POST", "/datastream/orders?action=stop", {"force": True}),
    ("DELETE", "/datastream/orders", None),
)


def test_without_a_token_nothing_is_read_or_changed(besieged: Besieged) -> None:
    for method, path, body in (*CHANGES, ("GET", "/v1/datastreams", None), ("GET", "/datastream", None)):
        besieged.refuses(besieged.ask("", method, path, body), 401)
    wrong = {"Authorization": f"Bearer hr_00000000_{'0' * 64}"}
    besieged.refuses(besieged.ask("", "GET", "/v1/plan", headers=wrong), 401)


@pytest.mark.deep
@pytest.mark.parametrize("who", ["viewer", "bills"])
def test_what_takes_another_role_or_owner_is_not_done(besieged: Besieged, who: str) -> None:
    for method, path, body in CHANGES:
        answer = besieged.ask(who, method, path, body, {"If-Match": "*"})
        besieged.refuses(answer, 403, "may not change", who)


def test_owner_and_requester_cannot_be_forged(besieged: Besieged) -> None:
    forged = a_body("forged", "nothing", "team-orders")
    besieged.refuses(besieged.ask("bills", "POST", "/v1/datastreams", forged), 403, "team-orders", "bills")
    taken = besieged.ask(
        "bills", "PATCH", "/v1/datastreams/orders", {"owner": "team-bills"}, {"If-Match": "*"}
    )
    besieged.refuses(taken, 403, who="bills")
    for action in ("pause", "resume"):
        headers = {"X-Forwarded-For": "10.9.8.7", "X-Remote-User": "petra"}
        path = f"/v1/datastreams/bills/{action}"
        done = besieged.ask("bills", "POST", path, {"requested_by": "petra", "reason": "a test"}, headers)
        assert done.status_code == 200, done.text
        line = besieged.logged(AUDIT, done.headers["X-Request-ID"])
        assert (line["principal"], line["role"], line["remote"]) == ("bella", "owner", "127.0.0.1")
        assert line["requested_by"] == "bella (for petra)"


@pytest.mark.parametrize("key", ["system.taskPrefix", "group.id"])
def test_the_group_of_another_is_not_joined(besieged: Besieged, key: str) -> None:
    body = a_body("guest", "nothing", metadata={"owner": "team-bills", key: "orders"})
    besieged.refuses(besieged.ask("bills", "POST", "/v1/datastreams", body), 403, who="bills")
    sent = restli("guest", besieged.kafka_pair.source.address, **{key: "orders"})
    besieged.refuses(besieged.ask("bills", "POST", "/datastream", sent), 403, who="bills")


def test_no_strangers_broker_is_copied_from_or_to(besieged: Besieged) -> None:
    words = "address"
    for address in ("broker.evil.example:9092", "localhost.evil.example:9092", "[::1]:9092"):
        for body in (
            a_body("stranger", "nothing", source={"cluster": address, "topics": "nothing"}),
            a_body("stranger", "nothing", destination={"cluster": address, "name": "x.*"}),
        ):
            besieged.refuses(besieged.ask("bills", "POST", "/v1/datastreams", body), 400, words, "bills")
        answer = besieged.ask("bills", "POST", "/datastream", restli("stranger", address))
        besieged.refuses(answer, 400, words, "bills")


def test_a_strangers_broker_beside_ours_is_left_out(besieged: Besieged) -> None:
    address = f"{besieged.other_name},broker.evil.example:9092"
    body = a_body("beside", "nothing", destination={"cluster": address, "name": "x.*"})
    made = besieged.ask("bills", "POST", "/v1/datastreams", body)
    assert (made.status_code, made.json()["destination"]["cluster"]) == (201, "twin"), made.text
    assert besieged.ask("bills", "DELETE", "/v1/datastreams/beside").status_code == 202


def test_one_cluster_by_two_names_is_not_copied_onto_itself(besieged: Besieged) -> None:
    topic = besieged.topics["bills"]
    for name in ("twin", besieged.other_name):
        body = a_body("self", topic, destination={"cluster": name, "name": "*"})
        besieged.refuses(besieged.ask("bills", "POST", "/v1/datastreams", body), 400, "same cluster", "bills")


def test_internal_topics_take_an_operator(besieged: Besieged) -> None:
    source = {"cluster": "source", "topics": "__consumer_offsets", "internal": True}
    body = a_body("offsets", "nothing", source=source)
    for path in ("/v1/datastreams", "/v1/datastreams?dry_run=true"):
        besieged.refuses(besieged.ask("bills", "POST", path, body), 403, who="bills")
    change = {"source": {"internal": True}}
    answer = besieged.ask("bills", "PATCH", "/v1/datastreams/bills", change, {"If-Match": "*"})
    besieged.refuses(answer, 403, who="bills")


def test_positions_of_private_consumer_groups_take_an_operator(besieged: Besieged) -> None:
    path = "/v1/datastreams/bills/translation/groups/payroll"
    for who in ("viewer", "bills"):
        for direction in ("to-destination", "to-source"):
            besieged.refuses(besieged.ask(who, "GET", f"{path}?direction={direction}"), 403, who=who)
    assert besieged.ask("operator", "GET", path).status_code == 404


def test_an_idempotency_key_of_another_tenant_is_not_taken(besieged: Besieged) -> None:
    key = {"Idempotency-Key": uuid4().hex}
    made = {}
    for who in TENANTS:
        body = a_body(f"key-{who}", "nothing", f"team-{who}")
        answer = besieged.ask(who, "POST", "/v1/datastreams", body, key)
        assert answer.status_code == 201, answer.text
        again = besieged.ask(who, "POST", "/v1/datastreams", body, key)
        made[who] = (answer.json()["name"], again.json()["name"], again.status_code)
        assert besieged.ask(who, "DELETE", f"/v1/datastreams/key-{who}").status_code == 202
    assert made == {who: (f"key-{who}", f"key-{who}", 201) for who in TENANTS}


@pytest.mark.parametrize("name", ["\u043erders", "orders\uff11", "orders\u0301", "a%2Fb", "=1+1", "@orders"])
def test_names_that_resemble_others_are_refused(besieged: Besieged, name: str) -> None:
    besieged.refuses(besieged.ask("bills", "POST", "/v1/datastreams", a_body(name, "nothing")), 400)


def test_the_events_of_a_revoked_token_end(besieged: Besieged) -> None:
    token, entry = new_token(Principal("short", Role.VIEWER), int(time.time() * 1000))
    add_entry(besieged.token_file, entry)
    headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {token}"}
    url = f"http://{besieged.instance.address}/v1/events"

    def is_known() -> bool:
        return httpx.get(url, headers={"Authorization": headers["Authorization"]}).status_code == 200

    wait_until(is_known, "the token is valid")
    with httpx.stream("GET", url, headers=headers, timeout=PATIENCE_SECONDS) as answer:
        lines = answer.iter_lines()
        assert any(line.startswith("id: ") for line in lines)
        revoke(besieged.token_file, entry.identity)
        list(lines)  # until the service ends the stream
    assert httpx.get(url, headers=headers).status_code == 401


def test_the_streams_of_one_principal_leave_room_for_others(besieged: Besieged) -> None:
    url = f"http://{besieged.instance.address}/v1/events"

    def listen(who: str) -> httpx.Response:
        headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {besieged.tokens[who]}"}
        request = client.build_request("GET", url, headers=headers)
        return client.send(request, stream=True)

    with httpx.Client(timeout=PATIENCE_SECONDS, limits=httpx.Limits(max_connections=None)) as client:
        taken = [listen("viewer") for _ in range(25)]
        assert [one.status_code for one in taken] == [200] * 20 + [429] * 5
        other = listen("orders")
        assert other.status_code == 200
        for one in (*taken, other):
            one.close()


def test_events_of_one_tenant_do_not_evict_those_of_another(besieged: Besieged) -> None:
    for _ in range(30):
        for action in ("pause", "resume"):
            done = besieged.ask("bills", "POST", f"/v1/datastreams/bills/{action}", {"reason": "flood"})
            assert done.status_code == 200, done.text
    events = besieged.ask("viewer", "GET", "/v1/events?limit=1000").json()
    assert any(one["datastream"] == "orders" for one in events)


def test_plans_and_operations_of_one_tenant_do_not_evict_those_of_another(besieged: Besieged) -> None:
    plan = besieged.ask("orders", "POST", "/v1/datastreams/orders/plan", {"full": True}).json()
    asked = besieged.ask("orders", "POST", "/v1/rebalance", {"datastream": "orders"}).json()
    for _ in range(25):
        made = besieged.ask("bills", "POST", "/v1/datastreams/bills/plan", {"full": True})
        assert made.is_success, made.text
    for _ in range(60):
        queued = besieged.ask("bills", "POST", "/v1/rebalance", {"datastream": "bills"})
        assert queued.status_code in {202, 503}, queued.text
    assert besieged.ask("viewer", "GET", f"/v1/plans/{plan['id']}").status_code == 200
    assert besieged.ask("viewer", "GET", f"/v1/operations/{asked['operation']['id']}").status_code == 200


def test_answers_are_neither_cached_nor_sniffed(besieged: Besieged) -> None:
    for who, path in (("viewer", "/v1/datastreams"), ("", "/v1/plan"), ("viewer", "/v1/nothing")):
        headers = besieged.ask(who, "GET", path).headers
        assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")


def test_pages_of_others_change_and_read_nothing(besieged: Besieged) -> None:
    """Send cross-site requests, and foreign host names for this machine, with a sufficient token."""
    for method, path, body in CHANGES:
        for headers in ({"Origin": EVIL}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            besieged.refuses(besieged.ask("operator", method, path, body, headers), 403, "page")
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            answer = besieged.ask("operator", method, path, body, {"Content-Type": kind})
            besieged.refuses(answer, 415, kind)
    for method, path in (("GET", "/v1/datastreams"), ("GET", "/metrics"), ("POST", "/datastream")):
        answer = besieged.ask("operator", method, path, headers={"Host": "evil.example:32311"})
        besieged.refuses(answer, 403, "evil.example")


@pytest.mark.deep
@pytest.mark.parametrize("part", ["head", "body"])
def test_those_who_send_slowly_hold_up_nobody_and_are_ended(besieged: Besieged, part: str) -> None:
    token = besieged.tokens["bills"]
    head = f"POST /v1/datastreams HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}"
    whole = {"head": head, "body": f"{head}\r\nContent-Length: 1000\r\n\r\n{{"}[part].encode()
    with ExitStack() as stack:
        slow = [stack.enter_context(besieged.connection()) for _ in range(100)]
        for one in slow:
            one.sendall(whole[:-1])
        for one in slow:
            one.sendall(whole[-1:])
        besieged.serves()
        for one in slow:
            assert to_its_end(one).startswith(b"HTTP/1.1 408 ")


@pytest.mark.deep
def test_those_who_do_not_read_their_answers_are_ended(besieged: Besieged) -> None:
    head = f"Host: localhost\r\nAuthorization: Bearer {besieged.tokens['viewer']}\r\n\r\n"
    with ExitStack() as stack:
        greedy = [stack.enter_context(besieged.connection()) for _ in range(20)]
        for one in greedy:
            one.sendall(f"GET /v1/openapi.json HTTP/1.1\r\n{head}".encode() * 40)
        besieged.serves()
        for one in greedy:
            with suppress(ConnectionResetError):
                assert to_its_end(one)


@pytest.mark.deep
def test_topics_that_grow_take_no_more_than_the_quota(besieged: Besieged) -> None:
    source, topic = besieged.kafka_pair.source.address, f"few{besieged.service_name}"
    make_topic(source, topic, 2)
    made = besieged.ask("bills", "POST", "/v1/datastreams", a_body("few", topic))
    assert made.status_code == 201, made.text
    wait_until(lambda: topic in besieged.ask("viewer", "GET", "/v1/plan").text, "the topic is planned")
    grow_topic(source, topic, 20)
    shown = "/v1/datastreams/few"
    wait_until(
        lambda: "18 partitions wait" in besieged.ask("viewer", "GET", shown).text, "the new partitions wait"
    )
    refused = besieged.ask("bills", "POST", "/v1/datastreams?dry_run=true", a_body("forged", topic))
    besieged.refuses(refused, 403, "4 partitions together, of which 21 are taken", "bills")
    assert besieged.ask("bills", "DELETE", shown).status_code == 202


@pytest.mark.deep
def test_who_opens_many_connections_is_told_so(besieged: Besieged) -> None:
    with ExitStack() as stack:
        many = [stack.enter_context(besieged.connection()) for _ in range(300)]
        answers = [to_its_end(one) for one in many]
    assert sum(one.startswith(b"HTTP/1.1 503 ") for one in answers) >= 150
    assert all(b"connections" in one or one.startswith(b"HTTP/1.1 408 ") for one in answers)
    besieged.serves()


def to_its_end(connection: socket.socket) -> bytes:
    """Return the data received until the peer closes the connection."""
    found = b""
    while part := connection.recv(65_536):
        found += part
    return found


@pytest.mark.deep
@pytest.mark.parametrize("how", ["declared", "chunked"])
def test_a_body_of_100_megabytes_is_not_taken(besieged: Besieged, how: str) -> None:
    host, _, port = besieged.instance.address.rpartition(":")
    piece, size = b" " * 2**16, 100 * 2**20
    headers = {"Authorization": f"Bearer {besieged.tokens['bills']}"}
    connection = HTTPConnection(host, int(port), timeout=PATIENCE_SECONDS)
    connection.putrequest("POST", "/v1/datastreams")
    for name, value in headers.items():
        connection.putheader(name, value)
    if how == "declared":
        connection.putheader("Content-Length", str(size))
    else:
        connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    for _ in range(MOST_BYTES // len(piece) + 1):
        connection.send(piece if how == "declared" else b"%x\r\n%s\r\n" % (len(piece), piece))
    answer = connection.getresponse()  # 99 megabytes before the end
    assert answer.status == 413
    document = json.loads(answer.read())
    assert "large" in document["detail"]
    assert besieged.logged("request refused", document["request_id"])["principal"] == "bella"
    connection.close()


def test_what_is_nested_or_no_json_is_refused(besieged: Besieged) -> None:
    digits = b'{"name":' + b"9" * 100_000 + b"}"
    for body in (b"[" * 100_000, b'{"a":' * 50_000, digits, b"\xff\xfe", b'{"a":1'):
        for path in ("/v1/datastreams", "/datastream", "/v1/rebalance"):
            besieged.refuses(besieged.ask("bills", "POST", path, body), 400, who="bills")


COSTLY: Final[Sequence[tuple[dict[str, Any], str]]] = (
    ({"destination": {"cluster": ",".join(f"h{n}:9092" for n in range(300))}}, "address"),
    ({"source": {"cluster": "source", "topics": "(" * 5_000}}, "is not a regular expression"),
    ({"source": {"cluster": "source", "topics": "[a]" * 2_000}}, "the expression has 6000 bytes"),
    ({"source": {"cluster": "source", "topics": "((a{1,999}){1,999}){1,999}"}}, "topics"),
    ({"limits": {"min_tasks": 10**18}}, "min_tasks"),
    ({"limits": {"max_tasks": 10**18}}, "max_tasks"),
    ({"name": ON_A_TERMINAL}, "name"),
    ({"metadata": {"owner": f"team-bills{ON_A_TERMINAL}"}}, "owner"),
    ({"name": "../../secret"}, "name"),
    ({"name": "payroll"}, "consumer group 'payroll'"),
)


@pytest.mark.deep
def test_what_would_cost_or_deceive_is_refused(besieged: Besieged) -> None:
    for more, words in COSTLY:
        answer = besieged.ask("operator", "POST", "/v1/datastreams", a_body("costly", "nothing") | more)
        besieged.refuses(answer, 400, words, "operator")


@pytest.mark.deep
def test_an_expression_that_would_cost_years_is_matched_at_once(besieged: Besieged) -> None:
    make_topic(besieged.kafka_pair.source.address, "a" * 200 + besieged.service_name, 1)
    body = a_body("catastrophe", "(a+)+(a|aa)+(.*a){20}Z")
    made = besieged.ask("bills", "POST", "/v1/datastreams", body)
    assert made.status_code == 201, made.text
    besieged.serves()
    assert besieged.ask("bills", "DELETE", "/v1/datastreams/catastrophe").status_code == 202


def test_what_is_stored_commands_no_terminal(besieged: Besieged) -> None:
    """Store a name that no client could create, and texts that any client can."""
    told = {"reason": ON_A_TERMINAL, "requested_by": ON_A_TERMINAL}
    for action in ("pause", "resume"):
        done = besieged.ask("bills", "POST", f"/v1/datastreams/bills/{action}", told)
        assert done.status_code in {200, 400}, done.text
    with store_session(besieged.kafka_pair, besieged.service_name) as session:
        bad = to_document(a_datastream("bad", "nothing")) | {"metadata": {"owner": ON_A_TERMINAL}}
        session.create("/datastreams/bad", json.dumps(bad).encode())
        for arguments, holds in ((["datastream", "list"], "bad"), (["events"], "bills")):
            shown = command(besieged, *arguments)
            assert visible_lines(shown) == shown
            assert "\x1b" not in shown
            assert holds in shown
        assert "bad" in besieged.ask("viewer", "GET", "/v1/datastreams").text
        assert besieged.ask("operator", "DELETE", "/v1/datastreams/bad").status_code == 202


def command(besieged: Besieged, *arguments: str) -> str:
    """Return the output of a `headrace` command run by a viewer."""
    done = subprocess.run(
        [sys.executable, "-m", "headrace", *arguments, "--at", besieged.instance.address],
        env={**os.environ, "HEADRACE_TOKEN": besieged.tokens["viewer"]},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr
