"""The committed lists of jars."""

from __future__ import annotations

import pytest

from stack.errors import JarsUnavailable, UnknownName
from stack.jars.coordinates import (
    KAFKA_RELEASES,
    SET_NAMES,
    TIERED_KAFKA,
    Artefact,
    artefacts_of,
    format_list,
    list_file,
    parse_list,
)
from stack.jars.lists import without_those_of_pyspark

_SUM = "0123456789abcdef" * 4


def test_a_list_reads_back_as_it_was_written() -> None:
    artefacts = (Artefact("org.example", "a_2.13", "1.0-jre", _SUM), Artefact("b", "b", "2", _SUM[::-1]))
    assert parse_list(format_list("two jars", artefacts), "here") == artefacts


def test_a_classifier_is_a_part_of_the_coordinate_and_of_the_file() -> None:
    (jar,) = parse_list(f"a:b:1:test {_SUM}\n", "here")
    assert (jar.coordinate, jar.file_name) == ("a:b:1:test", "b-1-test.jar")
    assert parse_list(format_list("one jar", [jar]), "here") == (jar,)


def test_comments_and_blank_lines_say_nothing() -> None:
    text = f"\n# nothing\n  a:b:1 {_SUM}  # a comment\n"
    assert parse_list(text, "here") == (Artefact("a", "b", "1", _SUM),)


@pytest.mark.parametrize(
    "line",
    ["a:b:1", "a:b:1 abc", f"a:b {_SUM}", f"a:b:1:c:d {_SUM}", f"a:b:1 {_SUM.upper()}", f"a/b:c:1 {_SUM}"],
)
def test_a_line_that_is_none_is_named(line: str) -> None:
    with pytest.raises(JarsUnavailable, match=r"^here\b.*\b2\b"):
        parse_list(f"# heading\n{line}\n", "here")


def test_two_jars_of_one_name_would_overwrite_each_other() -> None:
    with pytest.raises(JarsUnavailable, match=r"twice: core-1\.jar"):
        parse_list(f"a:core:1 {_SUM}\nb:core:1 {_SUM}\n", "here")


def test_namesakes_of_other_versions_live_side_by_side() -> None:
    assert len(parse_list(f"a:core:1 {_SUM}\nb:core:2 {_SUM}\n", "here")) == 2


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(UnknownName, match="'hadoop'") as caught:
        list_file("hadoop")
    assert all(name in caught.value.advice for name in SET_NAMES)


@pytest.mark.parametrize("name", [*SET_NAMES, *KAFKA_RELEASES, TIERED_KAFKA])
def test_the_committed_lists_are_whole_and_name_no_host(name: str) -> None:
    artefacts = artefacts_of(name)
    assert len({artefact.coordinate for artefact in artefacts}) == len(artefacts)
    text = list_file(name).read_text()
    assert "//" not in text
    assert list(artefacts) == sorted(artefacts)


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("kafka", {"kafka_2.13", "kafka-tools", "connect-mirror", "connect-runtime", "log4j-slf4j-impl"}),
        (
            "pinot",
            {
                "pinot-controller",
                "pinot-broker",
                "pinot-server",
                "pinot-avro",
                "pinot-kafka-2.0",
                "groovy-all",
            },
        ),
        ("spark", {"spark-sql-kafka-0-10_2.13", "spark-avro_2.13", "spark-token-provider-kafka-0-10_2.13"}),
    ],
)
def test_a_set_has_what_its_server_starts_from(name: str, modules: set[str]) -> None:
    assert modules <= {artefact.name for artefact in artefacts_of(name)}


def test_a_jar_of_pyspark_is_left_out_at_every_version() -> None:
    ours = Artefact("org.example", "ours", "1")
    theirs = Artefact("com.github.luben", "zstd-jni", "0.1-2")
    assert without_those_of_pyspark([theirs, ours]) == [ours]
    assert without_those_of_pyspark(artefacts_of("spark")) == list(artefacts_of("spark"))
