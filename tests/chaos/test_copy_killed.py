"""Run the kill loop briefly for each guarantee; `python -m bench mirror_chaos` performs a hundred kills."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mirror.model.datastreams.policy import Guarantee
from tests.chaos.killing import Loop
from tests.servers import NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]


def test_killed_again_and_again(new_kafka: NewKafka, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        source, target = pool.map(new_kafka, ("source", "destination"))
    for seed, guarantee in enumerate(Guarantee):
        loop = Loop(source, target, f"chaos-{guarantee}", guarantee, seed, tmp_path, records_per_second=300)
        loop.run(kills=3)
        found = loop.finish()
        assert (found.lost, found.disorder, found.wrong_map_entries, found.unbalanced_ledgers) == (
            0,
            0,
            0,
            0,
        ), found
        if guarantee is not Guarantee.AT_LEAST_ONCE:
            assert found.repeated == 0, found
