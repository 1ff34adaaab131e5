"""Test that the check of watermarks finds every one that is ahead of the records or far behind them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.service.audits import AuditWatch, Ends, Statement, missing_records
from tests.chaos.service.tenants import Style, Tenant

TENANT = Tenant("orders", "orders", 2, Style())
HERE = {0: {f"a{offset}": offset for offset in range(10)}, 1: {f"b{offset}": offset for offset in range(4)}}
THERE = {
    0: {f"a{offset}": 100 + offset for offset in range(10)},
    1: {f"b{offset}": offset for offset in range(4)},
}
SOURCES: list[tuple[float, Ends]] = [
    (10.0, {("orders", 0): 5, ("orders", 1): 2}),
    (20.0, {("orders", 0): 8, ("orders", 1): 4}),
    (30.0, {("orders", 0): 10, ("orders", 1): 4}),
]


@pytest.mark.parametrize(
    ("held", "ends", "ahead", "behind"),
    [
        (20.0, (108, 4), 0, 0.0),
        (20.0, (107, 4), 1, 0.0),
        (30.0, (108, 3), 3, 0.0),
        (5.0, (110, 4), 0, 25.0),
        (10.0, (105, 2), 0, 0.0),
        (5.0, (0, 0), 0, 0.0),
        (20.0, (110, 0), 4, 0.0),
    ],
)
def test_a_watermark_is_compared_with_the_records(
    held: float, ends: tuple[int, int], ahead: int, behind: float
) -> None:
    site: Any = None
    watch = AuditWatch(site, [TENANT], sources=SOURCES)
    stated = Statement("orders", 31.0, held, {("orders", number): end for number, end in enumerate(ends)})
    missing = missing_records(stated, TENANT, HERE, THERE)
    assert (watch.ahead(stated, missing), watch.behind_truth(stated, missing)) == (ahead, behind)
