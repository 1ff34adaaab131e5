"""Round trips of stored values: names, partitions as ranges, documents in chunks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.coordination.stores import node_codec, znodes
from mirror.errors import CorruptData
from mirror.model.topics import TopicPartition

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
topics = st.text("abAZ09._-", min_size=1, max_size=20)
some_partitions = st.frozensets(
    st.builds(TopicPartition, topics, st.integers(0, 40) | st.integers(0, 2**31 - 1)), max_size=60
)
documents = st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=50), max_size=20)


@given(names)
def test_any_name_becomes_one_level_of_a_path_and_back(name: str) -> None:
    path = znodes.child("/p", name)
    assert path.count("/") == 2
    node = path.removeprefix("/p/")
    assert node not in {"", ".", ".."}
    assert "\x00" not in node
    assert znodes.name_of(node) == name


@given(names, names)
def test_different_names_have_different_paths(one: str, two: str) -> None:
    assert (znodes.child("/p", one) == znodes.child("/p", two)) == (one == two)


@given(some_partitions)
def test_partitions_survive_as_ranges(wanted: frozenset[TopicPartition]) -> None:
    assert node_codec.decode_partitions(node_codec.encode_partitions(wanted)) == wanted


@given(st.integers(0, 1000), st.integers(1, 5000))
def test_a_run_of_partitions_takes_one_range(first: int, count: int) -> None:
    text = node_codec.encode_partitions(TopicPartition("t", number) for number in range(first, first + count))
    assert len(text["t"]) <= 9
    assert "," not in text["t"]


@given(documents, st.integers(1, 60))
def test_documents_survive_any_chunk_size(document: dict[str, object], size: int) -> None:
    chunks = node_codec.encode_chunks(document, size)
    assert chunks
    assert all(0 < len(chunk) <= size for chunk in chunks)
    assert node_codec.decode_chunks(chunks, "/x") == document


@given(documents, st.integers(1, 40), st.data())
def test_a_document_without_one_of_its_chunks_is_refused(
    document: dict[str, object], size: int, data: st.DataObject
) -> None:
    chunks = node_codec.encode_chunks(document, size)
    del chunks[data.draw(st.integers(0, len(chunks) - 1))]
    with pytest.raises(CorruptData, match="/here"):
        node_codec.decode_chunks(chunks, "/here")


@given(st.binary(max_size=80))
def test_rubbish_is_refused_by_the_name_of_its_node(rubbish: bytes) -> None:
    for decode in (node_codec.decode, lambda data, path: node_codec.decode_chunks([data], path)):
        try:
            assert isinstance(decode(rubbish, "/here"), dict)
        except CorruptData as error:
            said = str(error)
        else:
            continue
        assert "/here" in said
