"""Test freeze windows in their textual form."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from mirror.errors import InvalidRequest
from mirror.model.capacity.freeze import frozen_by, read_freeze

WEEKEND = "Fri 18:00 to Mon 06:00 Europe/Berlin"
NIGHT = "22:00 to 06:00"
HOLIDAYS = "2026-12-20 18:00 to 2027-01-03 06:00 America/New_York"
CLOCK_GOES_BACK = "2026-10-25 02:30 to 2026-10-25 02:45 Europe/Berlin"


def moment(text: str, zone: str = "UTC", fold: int = 0) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp() * 1000)


@pytest.mark.parametrize(
    ("window", "at", "is_within"),
    [
        (WEEKEND, moment("2026-11-20 17:59", "Europe/Berlin"), False),
        (WEEKEND, moment("2026-11-20 18:00", "Europe/Berlin"), True),
        (WEEKEND, moment("2026-11-22 12:00", "Europe/Berlin"), True),
        (WEEKEND, moment("2026-11-23 05:59:59", "Europe/Berlin"), True),
        (WEEKEND, moment("2026-11-23 06:00", "Europe/Berlin"), False),
        (WEEKEND, moment("2026-11-20 17:30"), True),  # 18:30 in Berlin in winter
        (WEEKEND, moment("2026-07-24 16:30"), True),  # 18:30 in Berlin in summer
        (WEEKEND, moment("2026-07-24 15:30"), False),
        (NIGHT, moment("2026-11-20 21:59"), False),
        (NIGHT, moment("2026-11-20 22:00"), True),
        (NIGHT, moment("2026-11-21 05:59"), True),
        (NIGHT, moment("2026-11-21 06:00"), False),
        ("09:00 to 17:00", moment("2026-11-21 12:00"), True),
        ("09:00 to 17:00", moment("2026-11-21 18:00"), False),
        (HOLIDAYS, moment("2026-12-20 17:59", "America/New_York"), False),
        (HOLIDAYS, moment("2026-12-31 23:59"), True),
        (HOLIDAYS, moment("2027-01-03 06:00", "America/New_York"), False),
        (CLOCK_GOES_BACK, moment("2026-10-25 02:40", "Europe/Berlin", fold=0), True),
        (CLOCK_GOES_BACK, moment("2026-10-25 02:50", "Europe/Berlin", fold=0), True),
        (CLOCK_GOES_BACK, moment("2026-10-25 02:40", "Europe/Berlin", fold=1), True),
        (CLOCK_GOES_BACK, moment("2026-10-25 02:50", "Europe/Berlin", fold=1), False),
    ],
)
def test_a_window_is_of_a_wall_clock(window: str, at: int, is_within: bool) -> None:
    found = read_freeze(window)
    assert found.contains(at) is is_within
    assert (frozen_by([read_freeze("2020-01-01 00:00 to 2020-01-02 00:00"), found], at) is found) is is_within


@pytest.mark.parametrize(
    "text",
    [
        "",
        "weekends",
        "Fri 18:00",
        "Fri 18:00 to 06:00",
        "18:00 to Mon 06:00",
        "2026-12-20 18:00 to Mon 06:00",
        "24:00 to 06:00",
        "22:60 to 06:00",
        "22:00 to 22:00",
        "Fri 18:00 to Fri 18:00",
        "2026-02-30 18:00 to 2026-03-01 06:00",
        "2026-12-20 18:00 to 2026-12-20 18:00",
        "2026-12-20 18:00 to 2026-12-19 18:00",
        "2026-12-20 18:00 to 2028-12-19 18:00",
        "0001-01-01 00:00 to 0001-01-02 00:00 Asia/Tokyo",
        "22:00 to 06:00 Europe/Nowhere",
        "22:00 to 06:00 Europe",
        "22:00 to 06:00 ../etc/passwd",
        "22:00 to 06:00 /etc/passwd",
        "٢٢:00 to 06:00",
        "22:00 to 06:00 " + "x" * 10_000,
    ],
)
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        read_freeze(text)
