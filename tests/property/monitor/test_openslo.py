"""Round trips of objectives through OpenSLO documents; any other document is rejected."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.console.documents import read_documents, yaml_text
from mirror.errors import RefusedFields
from mirror.model.datastreams.objectives import Objective
from monitor.objectives.openslo import NamedObjective, by_datastream, from_document, to_document

PERCENTS = st.sampled_from([99.0, 99.5, 99.99]) | st.floats(0.001, 99.9999)
objectives = st.builds(
    Objective, st.integers(1, 10**10), PERCENTS, PERCENTS, st.integers(10, 3_600), st.integers(1, 90)
)
names = st.sampled_from(["orders", "Orders.EU", "a b", "ключ", "x" * 200, "100%", "no"]) | st.text(
    st.characters(exclude_categories=["C"]), min_size=1, max_size=20
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.text(max_size=3), below, max_size=2),
    max_leaves=4,
)


@given(names, objectives, st.sampled_from(["", "team-a"]))
def test_there_and_back_by_yaml_and_json(name: str, objective: Objective, owner: str) -> None:
    named = NamedObjective(name, objective)
    document = to_document(named, owner)
    assert from_document(document) == (named,)
    assert [from_document(one) for one in read_documents(yaml_text([document]), "x")] == [(named,)]
    assert from_document(json.loads(json.dumps(document))) == (named,)
    for found in (document["metadata"]["name"], document["spec"]["indicator"]["metadata"]["name"]):
        assert 1 <= len(found) <= 63
        assert found.strip("-") == found
        assert set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@given(st.lists(objectives, min_size=1, max_size=4, unique=True))
def test_documents_of_one_datastream_are_its_objectives_in_their_order(some: list[Objective]) -> None:
    documents = [(str(index), to_document(NamedObjective("orders", one))) for index, one in enumerate(some)]
    assert by_datastream(documents) == {"orders": tuple(some)}
    few = [one for one in some if len(str(one.percentile)) + len(str(one.target_percent)) < 12]
    named = [to_document(NamedObjective("orders", one))["metadata"]["name"] for one in few]
    assert len(set(named)) == len(named)


def places_of(document: Any, *path: str | int) -> list[tuple[str | int, ...]]:
    """Return every path in a document."""
    below: list[Any] = []
    if isinstance(document, dict):
        below = list(document.items())
    elif isinstance(document, list):
        below = list(enumerate(document))
    return [path, *(place for key, one in below for place in places_of(one, *path, key))]


DOCUMENT = to_document(NamedObjective("orders", Objective(2_000, 99.5, 99.9, 300, 28)))


@given(st.sampled_from(places_of(DOCUMENT)), ANYTHING)
def test_whatever_is_there_instead_is_an_objective_or_is_refused(
    place: tuple[str | int, ...], value: Any
) -> None:
    changed: Any = copy.deepcopy(DOCUMENT)
    if place:
        level = changed
        for part in place[:-1]:
            level = level[part]
        level[place[-1]] = value
    else:
        changed = value
    try:
        (found,) = from_document(changed)
    except RefusedFields as error:
        refused = error.fields
    else:
        refused = ()
        assert found.objective.milliseconds >= 1
    assert {one.pointer[:1] for one in refused} <= {"/", ""}
