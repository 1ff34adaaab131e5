"""Test that the table of docs/data-plane/batch-path.md is the path of a batch."""

from __future__ import annotations

from tests.walk import length_of, steps, walk


def test_the_map_is_the_way_of_a_batch_in_order() -> None:
    visits = iter(walk())
    missing = [step for step in steps() if not any(one[:2] == step[:2] for one in visits)]
    assert missing == [], "the first of these steps is out of order"


def test_the_map_names_every_file_that_a_batch_enters() -> None:
    named = {file for step in steps() for file in (step.file, *step.beside)}
    assert named == {visit.file for visit in walk()}


def test_what_a_reader_of_the_map_follows_does_not_grow() -> None:
    """Targets: 10 files, 1,200 lines, 5 returns. Lower a number if the path gets shorter; never raise one."""
    length = length_of([step.file for step in steps()])
    assert (length.files, length.returns) == (10, 3)
    assert length.lines <= 1_200
