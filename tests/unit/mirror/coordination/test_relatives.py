"""Test which topics may be related to a new datastream by renaming."""

from __future__ import annotations

import pytest

from mirror.coordination.routes.relatives import Way, relatives
from mirror.model.topics import TopicNaming, TopicSelection

NAMES = ["t", "u", "a.t", "b.a.u", "a."]


def ways(*written: str) -> list[Way]:
    """Parse routes written like `ways("A>B a.*")`: source, destination and naming template."""
    parts = [one.replace(">", " ").split() for one in written]
    return [(source, destination, TopicNaming(template)) for source, destination, template in parts]


def found(expression: str, *written: str, names: list[str] = NAMES) -> list[str]:
    return sorted(relatives(TopicSelection(expression), ways(*written), names))


@pytest.mark.parametrize(
    ("expression", "templates", "related"),
    [
        ("t", ["A>B *", "B>A *"], ["t"]),
        ("t", ["A>B a.*", "B>A b.*"], ["a.t", "t"]),
        (r"a\.t", ["A>B a.*", "B>A b.*"], ["a.t", "t"]),
        (r"b\.a\.x", ["A>B a.*", "B>C b.*"], []),
        (r"a\.", ["A>B a.*", "B>A *"], ["a."]),
        ("nothing", ["A>B a.*", "B>A b.*"], []),
    ],
)
def test_names_of_one_stem_belong_together(expression: str, templates: list[str], related: list[str]) -> None:
    assert found(expression, *templates) == related


def test_a_name_that_does_not_exist_yet_counts() -> None:
    assert found(r"a\.t", "A>B a.*", names=["t", "u"]) == ["t"]
    assert found(r"b\.a\.t", "A>B a.*", "B>C b.*", names=["t", "u"]) == ["t"]
    assert found(r"x\.x\.t", "A>A x.*", "A>B x.*", names=["t", "u"]) == ["t"]


def test_the_name_that_another_one_may_be_a_copy_of_counts() -> None:
    assert found("t", "A>B a.*", "B>A b.*", names=["b.a.t", "u"]) == ["b.a.t"]


@pytest.mark.parametrize("template", ["*.x", "a.b.*"])
def test_all_names_count_where_stems_are_not_certain(template: str) -> None:
    assert found("t", "A>B a.*", f"B>A {template}") == sorted(NAMES)


def test_all_names_count_where_there_are_too_many_ways() -> None:
    clusters = "ABCDEFGH"
    mesh = [f"{one}>{other} {one}.*" for one in clusters for other in clusters if one != other]
    assert found("t", *mesh) == sorted(NAMES)


def test_many_stems_are_told_apart_too() -> None:
    names = [f"a.team-{number}" for number in range(300)]
    assert found("team-.*", "A>B a.*", "B>A *", names=[*names, "other"]) == sorted(names)
