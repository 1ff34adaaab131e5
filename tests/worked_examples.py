"""What the worked examples of CONTRIBUTING.md bring, seen where a user sees it.

    python -m tests.worked_examples metric|transform

copies records with a whole engine between fake clusters, and prints what it has seen as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from mirror.model.datastreams.policy import CopyPolicy
from mirror.model.metrics import Drops, MirrorMetric
from mirror.worker.protocol import LaneRates, MessageReader, encode_message
from mirror.worker.reports import MetricReports
from pinot.tables import MIRROR_METRICS
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.site import Site


class _Published:
    def __init__(self) -> None:
        self.metrics: list[MirrorMetric] = []

    def publish(self, metrics: Sequence[MirrorMetric]) -> None:
        self.metrics += metrics

    def drops(self) -> Drops:
        return Drops()


def _copied(records: int, **fields: Any) -> MirroredFakes:
    """Single records of partition 0 of topic `t`, copied by a lane of the datastream `orders`."""
    fakes = MirroredFakes()
    fakes.make_topic("t")
    for number in range(records):
        fakes.write("t", number, 1)
    fakes.start("t", group="orders", **fields)
    fakes.run_to("t", records)
    return fakes


def metric() -> dict[str, Any]:
    """From the engine through the pipe of its worker to /metrics and /v1/lanes; and the columns at Pinot."""
    fakes, published = _copied(100), _Published()
    (message,) = MetricReports(fakes.engine, published, fakes.clock, 5.0).closing()
    fakes.close()
    (said,) = MessageReader().feed(encode_message(message))
    assert isinstance(said, LaneRates)
    site = Site()
    site.create("orders")
    workers = site.follower.workers
    for rate in said.rates:
        workers.report(rate)
    workers._add(said.sums)
    site.follower.turn()
    return {
        "columns": [column.name for column in MIRROR_METRICS.columns],
        "version": MIRROR_METRICS.version,
        "prometheus": site.client.get("/metrics").text,
        "lane": site.client.get("/v1/lanes").json()[0],
    }


def transform() -> dict[str, Any]:
    """The headers of records at the destination."""
    fakes = _copied(3, policy=CopyPolicy(transforms=("stamp-header:site=east",)))
    seen = fakes.copied("t")
    fakes.close()
    return {"headers": [[[key, (value or b"").decode()] for key, value in one.headers] for one in seen]}


if __name__ == "__main__":
    print(json.dumps({"metric": metric, "transform": transform}[sys.argv[1]]()))
