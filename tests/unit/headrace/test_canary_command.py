"""`headrace canary` and the run of its gate on fake brokers."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from headrace.errors import EXIT_USAGE
from headrace.oncall.canary_gate import run_gate
from mirror.adapters.kafka.loop_thread import LoopThread
from mirror.adapters.settings import KafkaCluster
from monitor.adapters.canary_probe import CanaryEnd, CanaryProbe
from monitor.canary.gate import GateLimits, GateResult
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace

LIMITS = GateLimits(5_000, 0, 0.5)


def result_of(copy: str, seconds: float = 2.5) -> GateResult:
    """Run a gate of two records or more, which arrive only if `copy` is the canary topic itself."""
    with ExitStack() as stack:
        cluster = stack.enter_context(running(FakeCluster("a", 1)))
        with cluster.lock:
            cluster.create_topic("copy", 1)
        settings = KafkaCluster(bootstrap_servers=cluster.address)
        ends = CanaryEnd(settings, "canary"), CanaryEnd(settings, copy)
        return run_gate(CanaryProbe(*ends, LoopThread("gate")), LIMITS, seconds, lambda _: None)


def test_a_gate_passes_if_every_record_arrives() -> None:
    result = result_of("canary")
    assert result.is_passed, result.failures
    assert result.figures.consumed >= 1


@pytest.mark.deep
def test_a_gate_fails_if_nothing_arrives() -> None:
    result = result_of("copy")
    assert {one.limit for one in result.failures} == {"max_delay_ms"}
    assert result.figures.produced >= 1


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("orders", "--source", "source", "--destination", "destination"),
        ("--source", "source"),
        ("--destination", "destination"),
        ("orders", "--for", "soon"),
        ("orders", "--max-delay", "0s"),
        ("orders",),
        ("orders", "--min-availability", "nan"),
        ("--source", "nowhere", "--destination", "destination"),
    ],
)
def test_contradictory_options_are_refused(site: Site, headrace: Headrace, options: tuple[str, ...]) -> None:
    site.create()  # without a canary
    assert headrace("canary", *options).code == EXIT_USAGE


def test_a_paused_datastream_has_no_gate(site: Site, headrace: Headrace) -> None:
    site.create(canary=True)
    site.client.post("/v1/datastreams/orders/pause", json={"reason": "moving"}).raise_for_status()
    assert headrace("canary", "orders").code == EXIT_USAGE
