"""The watermark of a continuous audit never runs ahead of what was compared."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.audit.watermark import CompleteThrough
from mirror.model.topics import TopicPartition
from tests.examples import examples

ONE, TWO = TopicPartition("a", 0), TopicPartition("b", 0)
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "look", "compare", "lose"]), st.sampled_from([ONE, TWO])),
    max_size=60,
)


@given(STEPS, st.integers(0, 5))
@settings(max_examples=examples(300))
def test_every_record_before_the_watermark_was_compared(
    steps: list[tuple[str, TopicPartition]], lateness: int
) -> None:
    """A record arrives up to `lateness` after its timestamp; both are numbers of steps."""
    written: dict[TopicPartition, list[int]] = {ONE: [], TWO: []}
    compared = {ONE: 0, TWO: 0}
    lost: dict[TopicPartition, int] = {}
    watermarks = CompleteThrough()
    watermarks.observe(0, {ONE: 0, TWO: 0})
    for now, (step, place) in enumerate(steps, start=1):
        if step == "write":
            written[place].append(now - now % (lateness + 1))
        elif step == "look":
            watermarks.observe(now, {at: len(records) for at, records in written.items()})
        elif step == "compare":
            compared[place] = min(compared[place] + 2, len(written[place]))
            watermarks.of(place).compared(compared[place], is_clean=place not in lost)
        elif place not in lost:
            lost[place] = compared[place]  # the records that are compared next are not at the destination
        through = watermarks.through(lateness)
        for at, records in written.items():
            arrived = min(compared[at], lost.get(at, compared[at]))
            assert through is None or all(stamp >= through for stamp in records[arrived:])


def test_the_watermark_follows_what_is_compared() -> None:
    watermarks = CompleteThrough()
    watermarks.observe(1_000, {ONE: 5, TWO: 0})
    assert watermarks.through(0) is None
    watermarks.of(ONE).compared(4, is_clean=True)
    watermarks.of(TWO).compared(0, is_clean=True)
    assert (watermarks.through(0), watermarks.through(0, "b")) == (None, 1_000)
    watermarks.of(ONE).compared(5, is_clean=True)
    assert (watermarks.through(0), watermarks.through(300)) == (1_000, 700)


def test_a_difference_stops_it_until_everything_is_compared_again() -> None:
    watermarks = CompleteThrough()
    watermarks.observe(1_000, {ONE: 5})
    watermarks.of(ONE).compared(5, is_clean=True)
    watermarks.observe(2_000, {ONE: 6})
    watermarks.of(ONE).compared(6, is_clean=False)
    watermarks.observe(3_000, {ONE: 7})
    watermarks.of(ONE).compared(7, is_clean=True)
    assert watermarks.through(0) == 1_000
    watermarks.of(ONE).restart()
    assert watermarks.through(0) is None
    watermarks.of(ONE).compared(7, is_clean=True)
    assert watermarks.through(0) == 3_000


def test_new_and_deleted_partitions() -> None:
    watermarks = CompleteThrough()
    watermarks.observe(1_000, {ONE: 0})
    watermarks.of(ONE).compared(0, is_clean=True)
    watermarks.observe(2_000, {ONE: 0, TWO: 9})
    watermarks.of(TWO).compared(0, is_clean=True)
    assert watermarks.through(0, "b") == 1_000  # it did not exist then
    watermarks.observe(3_000, {ONE: 0})
    watermarks.of(ONE).compared(0, is_clean=True)
    assert (watermarks.through(0), watermarks.topics) == (3_000, ["a"])
    assert CompleteThrough().through(0) is None


def test_its_memory_is_bounded() -> None:
    watermarks = CompleteThrough()
    for now in range(10_000):
        watermarks.observe(now, {ONE: now})
    watermarks.of(ONE).compared(9_000, is_clean=True)
    through = watermarks.through(0)
    assert through is not None
    assert 8_000 < through <= 9_000
