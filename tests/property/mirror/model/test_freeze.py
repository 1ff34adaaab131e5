"""Freeze windows compared with wall clocks of zones with DST, a skipped day, or half-hour changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import assume, example, given
from hypothesis import strategies as st

from mirror.errors import InvalidRequest
from mirror.model.capacity.freeze import FreezeWindow, frozen_by, read_freeze

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "America/Sao_Paulo",
    "Asia/Kathmandu",
    "Africa/Casablanca",
)
CHANGES = [
    datetime.fromisoformat(text)
    for text in (
        "2027-03-28 01:00",
        "2026-10-25 01:00",
        "2027-03-14 07:00",
        "2026-11-01 06:00",
        "2026-10-03 15:30",
        "2027-04-03 15:00",
        "2011-12-30 10:00",
        "2018-11-04 03:00",
        "2028-02-29 12:00",
    )
]
zones = st.sampled_from(ZONES).map(ZoneInfo)
moments = st.builds(
    lambda change, minutes: (change + timedelta(minutes=minutes)).replace(tzinfo=UTC),
    st.sampled_from(CHANGES),
    st.integers(-2_000, 2_000),
)
minutes_of_a_day = st.integers(0, 1_439).map(lambda minute: f"{minute // 60:02}:{minute % 60:02}")
days = st.sampled_from(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def shows_twice(local: datetime, zone: ZoneInfo) -> bool:
    folds = [local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)]
    return folds[0] != folds[1]


def wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


@given(zones, st.sampled_from(CHANGES), st.integers(-300, 300), st.integers(1, 300), moments)
@example(
    ZoneInfo("Europe/Berlin"),
    datetime.fromisoformat("2027-03-28 02:30"),
    0,
    150,
    datetime(2027, 3, 28, 1, 5, tzinfo=UTC),
)
@example(
    ZoneInfo("Europe/Berlin"),
    datetime.fromisoformat("2027-03-28 01:00"),
    0,
    90,
    datetime(2027, 3, 28, 0, 45, tzinfo=UTC),
)
@example(
    ZoneInfo("Europe/Berlin"),
    datetime.fromisoformat("2027-03-28 01:45"),
    0,
    30,
    datetime(2027, 3, 28, 0, 50, tzinfo=UTC),
)
def test_a_window_once_is_what_the_clock_shows(
    zone: ZoneInfo, near: datetime, before: int, length: int, at: datetime
) -> None:
    """It contains every moment with a local time in the window; a repeated hour may belong to it twice."""
    begin = near + timedelta(minutes=before)
    end = begin + timedelta(minutes=length)
    try:
        window = read_freeze(f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} {zone.key}")
    except InvalidRequest as error:
        assert "clocks skip" in str(error)  # noqa: PT017 - most are read
        assume(False)
    shown = wall(at, zone)
    if begin <= shown < end:
        assert window.contains(ms(at))
    elif window.contains(ms(at)):
        assert shows_twice(shown, zone)


@given(zones, minutes_of_a_day, minutes_of_a_day, st.none() | st.tuples(days, days), moments)
def test_a_window_that_repeats_is_what_the_clock_shows(
    zone: ZoneInfo, begin: str, end: str, weekly: tuple[str, str] | None, at: datetime
) -> None:
    one, other = (f"{weekly[0]} {begin}", f"{weekly[1]} {end}") if weekly else (begin, end)
    assume(one != other)
    shown = wall(at, zone)
    order = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    place = (order.index(f"{shown:%a}") if weekly else 0, f"{shown:%H:%M}")
    first = (order.index(weekly[0]) if weekly else 0, begin)
    last = (order.index(weekly[1]) if weekly else 0, end)
    within = first <= place < last if first < last else place >= first or place < last
    assert read_freeze(f"{one} to {other} {zone.key}").contains(ms(at)) == within


@given(
    st.lists(
        st.builds(
            read_freeze,
            st.sampled_from(
                [
                    "22:00 to 06:00",
                    "23:00 to 05:00 Europe/Berlin",
                    "Fri 18:00 to Mon 06:00",
                    "00:00 to 23:59",
                    "2026-10-24 00:00 to 2026-10-26 00:00 Europe/Berlin",
                ]
            ),
        ),
        max_size=5,
    ),
    moments,
)
def test_windows_may_overlap(windows: list[FreezeWindow], at: datetime) -> None:
    """The first matching window in the settings is named."""
    within = [one for one in windows if one.contains(ms(at))]
    assert frozen_by(windows, ms(at)) is (within[0] if within else None)


@given(
    st.text(max_size=40)
    | st.from_regex(
        r"\A((Fri|Sun) |[0-9]{4}-[0-9]{2}-[0-9]{2} )?[0-9]{2}:[0-9]{2} to "
        r"((Fri|Sun) |[0-9]{4}-[0-9]{2}-[0-9]{2} )?[0-9]{2}:[0-9]{2}( [A-Za-z/_]{1,20})?\Z"
    ),
    st.integers(0, 4_102_444_800_000),
)
def test_any_text_is_a_window_or_refused(text: str, at_ms: int) -> None:
    try:
        window = read_freeze(text)
    except InvalidRequest:
        return
    assert window.contains(at_ms) in (True, False)
