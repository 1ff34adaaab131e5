"""Hostile contents of nodes other than definitions: every page responds, leader and lanes continue."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirror.coordination.stores import znodes
from mirror.coordination.stores.measured_load import InstanceMeasurements, LateRecords, MeasuredLoads
from mirror.coordination.stores.problems import Problem, TroubleStore
from mirror.instance.loads.advice_store import AdviceStore
from mirror.instance.loads.store import DatedObservation, ObservationStore
from mirror.instance.workers.costs import CostStore
from mirror.model.capacity.advice import Advice, GroupNeed, HourNeed, Hours, PastNeed
from mirror.model.capacity.costs import CostSums
from mirror.model.identifiers import DatastreamName, GroupName, InstanceName
from mirror.model.load import LoadSource, PartitionLoad
from mirror.model.topics import TopicPartition
from tests.builders import SOURCE
from tests.fakes.site import Site

PAGES = (
    "/v1/datastreams",
    "/v1/datastreams/orders",
    "/v1/groups/orders",
    "/v1/plan",
    "/v1/advice",
    "/v1/events?limit=500",
    "/v1/health",
    "/v1/instances",
    "/v1/overview",
    "/v1/loads",
    "/v1/operations",
    "/v1/monitor",
    "/v1/lanes",
    "/v1/movement",
    "/v1/incidents",
    "/v1/datastreams/orders/lag",
    "/metrics",
)
FOLDERS = tuple(
    path
    for name, path in vars(znodes).items()
    if isinstance(path, str)
    and path.startswith("/")
    and name not in {"VERSION", "SHARED_KEY", "DATASTREAMS", "LIVE"}
)
"""Folders whose nodes are replaced.

Excluded are nodes that a service must reject, the definitions, and the node of the instance: another
incarnation there is another instance, beside which this one may not copy.
"""
Raw = bytes
values: st.SearchStrategy[object] = st.sampled_from(
    [None, True, "", "x", "\0", "\ud800", "٣", "x" * 5_000, [], [None], [[[[1]]]], {}, {"": []}]
) | st.sampled_from([0, -1, 1.5, 2**63, 10**15, 10**400, float("nan"), float("inf")])
whole = st.sampled_from(
    [b"", b"\xff\0", b"{}", b"[" * 100_000, b"9" * 5_000, b"x" * 1_000_000]
    + [zlib.compress(one) for one in (b"{}", b"[]", b'{"a":' * 400 + b"1" + b"}" * 400, b'{"format": 2}')]
)


def sent(site: Site, method: str, path: str, body: object) -> None:
    """Send a request that must succeed."""
    answer = site.client.request(method, path, json=body)
    assert answer.is_success, answer.text


def a_site() -> Site:
    """Return a site with one datastream and every kind of state of leaders, monitors, instances and users."""
    site = Site()
    site.create("orders")
    site.tick(2)
    now, one, orders = site.clock.now_ms(), InstanceName("one"), GroupName("orders")
    ask = {"datastream": "orders", "full": True}
    sent(site, "POST", "/v1/rebalance", ask)
    sent(site, "POST", "/v1/datastreams/orders/plan", {})
    sent(site, "PUT", "/v1/monitor/lease", {"holder": "somebody"})
    sent(site, "PATCH", "/v1/monitor", {"acting": True, "reason": "tried"})
    site.tick(2)
    sent(site, "POST", "/v1/rebalance", ask)
    partition = TopicPartition("t", 0)
    late = {SOURCE: {partition: LateRecords(5, 5, 60)}}
    MeasuredLoads(site.session).publish(
        one, InstanceMeasurements({SOURCE: {partition: (5.0, 1.0)}}, {SOURCE: [partition]}, late), now
    )
    costs = CostSums(**dict.fromkeys(CostSums.__dataclass_fields__, 1))
    CostStore(site.session).put(one, {orders: {now // 3_600_000: costs}})
    site.leader.stores.problems.put(DatastreamName("orders"), Problem("it is set aside", now))
    troubles = TroubleStore(site.session)
    troubles.publish(znodes.TROUBLES, 0, {orders: "a lane stands still"})
    troubles.publish(znodes.QUOTAS, 0, {orders: "a quota holds it back"})
    hour, past = HourNeed(now, 3, 4), PastNeed(1, 2, 3, 4)
    need = GroupNeed(orders, 2, 3, (hour,), "", 3, 0.5, 0.1)
    sums = Hours(1, 2, 3, 4, 5)
    AdviceStore(site.session).put(
        Advice(now, 2, 1, 3, 1, "", "s", 3, 1, 3, now, 2, hour, hour, 1, sums, past, None, (need,))
    )
    loads = {TopicPartition("t", number): PartitionLoad(5.0, 1.0) for number in range(2)}
    ObservationStore(site.session).write(LoadSource(SOURCE), (), [DatedObservation(now, now, loads)])
    return site


@cache
def nodes() -> tuple[tuple[str, bytes], ...]:
    """Return the nodes with data; document names with a random part differ from run to run."""
    dump = a_site().server.dump()
    return tuple((path, data) for path, data in dump.items() if data and path.startswith(FOLDERS))


def places(document: Any, *above: str | int) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every field at any depth."""
    below = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in below:
        yield *above, key
        if isinstance(value, dict | list):
            yield from places(value, *above, key)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[int, Raw]:
    """Draw the number of a node, and hostile data for it."""
    number = draw(st.integers(0, len(nodes()) - 1))
    data = nodes()[number][1]
    if data[:1] not in {b"{", b"x"}:  # an identifier, half of which would be a valid other one
        return number, draw(whole)
    if draw(st.integers(0, 9)) == 0:
        return number, draw(whole | st.just(data[: len(data) // 2]))
    is_packed = data.startswith(b"x")
    document = json.loads(zlib.decompress(data) if is_packed else data)
    *above, last = draw(st.sampled_from(list(places(document))))
    level = document
    for key in above:
        level = level[key]
    if isinstance(level, dict) and draw(st.booleans()):
        level.pop(last)
    else:
        level[last] = draw(values)
    text = json.dumps(document).encode()
    return number, zlib.compress(text) if is_packed else text


@given(st.lists(damaged(), min_size=1, max_size=3))
def test_what_is_stored_beside_definitions_may_be_anything(found: list[tuple[int, Raw]]) -> None:
    site = a_site()
    present = [(path, data) for path, data in site.server.dump().items() if data and path.startswith(FOLDERS)]
    somebody = site.server.session()
    for number, raw in found:
        path = present[number][0]
        somebody.write(path, raw, somebody.read(path).version)
    site.tick(3)
    site.leader.leader._resign()  # the next leader reads the stored state
    site.tick(2)
    assert "no new plan" not in site.leader.leader.tick()
    for page in PAGES:
        answer = site.client.get(page)
        expected = {200, 503} if page == "/v1/health" else {200}  # unhealthy is expected
        assert answer.status_code in expected, (page, answer.text)
        assert "unexpected" not in answer.text, (page, answer.text)
    assert site.follower.lanes == ["t-0", "t-1"]
