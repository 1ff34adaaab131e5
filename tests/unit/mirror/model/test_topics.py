"""Test partitions, and the rules that select and rename topics."""

from __future__ import annotations

import pytest

from mirror.errors import InvalidRequest
from mirror.model.expressions import single_alternatives
from mirror.model.topics import TopicNaming, TopicPartition, TopicSelection, is_legal_topic


@pytest.mark.parametrize("text", ["t-0", "a-b-c-17", "a.b_c-2147483647", "--3", "0-0"])
def test_a_partition_reads_as_it_is_written(text: str) -> None:
    assert str(TopicPartition.parse(text)) == text


@pytest.mark.parametrize("text", ["", "t", "t-", "-1", "t-x", "t-1.5", "t--", "t- 1"])
def test_what_is_no_partition_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="topic-0"):
        TopicPartition.parse(text)


def test_partitions_sort_by_number_not_by_text() -> None:
    shuffled = [TopicPartition("t", 10), TopicPartition("t", 9), TopicPartition("s", 11)]
    assert [str(one) for one in sorted(shuffled)] == ["s-11", "t-9", "t-10"]


def test_expressions_are_over_whole_names_and_exclude_wins() -> None:
    selection = TopicSelection("orders.*|users", "orders-tmp.*")
    topics = ["orders", "orders-eu", "orders-tmp-1", "users", "users2", "my-users"]
    assert selection.choose(topics) == ("orders", "orders-eu", "users")


def test_anchors_change_nothing() -> None:
    assert TopicSelection("^(a|b)$").choose(["a", "b", "ab"]) == ("a", "b")


def test_what_belongs_to_kafka_is_taken_only_on_purpose() -> None:
    topics = ["__consumer_offsets", "_mine", "t"]
    assert TopicSelection(".*").choose(topics) == ("_mine", "t")
    assert TopicSelection(".*", internal=True).choose(topics) == ("__consumer_offsets", "_mine", "t")


OWN = ["headrace-progress", "headrace-mirror-metrics", "orders.headrace-dead-letters"]


def test_what_headrace_writes_for_itself_is_taken_only_on_purpose() -> None:
    assert TopicSelection(".*").choose([*OWN, "t"]) == ("t",)
    assert TopicSelection(".*headrace-.*").choose([*OWN, "t"]) == ()
    assert TopicSelection(".*", internal=True).choose([*OWN, "t"]) == tuple(sorted([*OWN, "t"]))


@pytest.mark.parametrize(
    "include",
    ["headrace-progress", "^headrace-progress$", "^(t|headrace-progress)$", r"(?:headrace\-progress)"],
)
def test_what_headrace_writes_is_taken_by_its_full_name(include: str) -> None:
    assert "headrace-progress" in TopicSelection(include).choose([*OWN, "t"])
    assert "headrace-mirror-metrics" not in TopicSelection(include).choose(OWN)


@pytest.mark.parametrize(("include", "exclude"), [("", ""), ("*", ""), ("(", ""), ("a", "[")])
def test_an_expression_that_is_none_is_refused(include: str, exclude: str) -> None:
    with pytest.raises(InvalidRequest):
        TopicSelection(include, exclude)


@pytest.mark.parametrize(
    ("expression", "advised"),
    [
        ("orders,payments", "orders|payments"),
        ("orders, payments", "orders|payments"),
        ("orders payments users", "orders|payments|users"),
        (r"orders\,payments", "orders|payments"),
        ("a{2,3},b", "a{2,3}|b"),
        ("^orders;payments$", "^orders|payments$"),
        ("orders/payments", ""),
        (r"price\$", ""),
        (r"\Qa,b\E", "a|b"),
        ("a{,2}", ""),
        ("straße", ""),
        ("a]", ""),
        ("orders[,]payments", "orders|payments"),
        (r"orders\x2cpayments", "orders|payments"),
        (r"orders\x{2C}payments", "orders|payments"),
        (r"orders\054payments", "orders|payments"),
        (r"orders[,;\s]+payments", ""),
        (r"orders\s.*", ""),
        (r"orders\tpayments", "orders|payments"),
        (r"x[]/]y", ""),
        (r"[[:space:]]", ""),
    ],
)
def test_a_literal_that_no_topic_name_has_is_refused(expression: str, advised: str) -> None:
    for selection in (TopicSelection(expression), TopicSelection(".*", expression)):
        with pytest.raises(InvalidRequest) as refused:
            selection.require_topic_characters()
        assert advised in (refused.value.advice or "")


@pytest.mark.parametrize(
    "expression",
    [
        "orders|payments",
        r"^(?:orders|eu\.pay-ments_2)$",
        "a{1,3}b{2,}c{4}",
        r"[a-z,]+x[]/a]y[^\],]z[[:alpha:],]",
        r"(?i)orders(?P<part>x)(?s:.)(?-i:y)",
        r"\p{Lu}\pL\x61\x{62}\141\d\w\W\bx",
        r"\Aorders\z",
        r"\Qa.b\E.+?",
    ],
)
def test_an_expression_of_topic_characters_is_accepted(expression: str) -> None:
    TopicSelection(expression, expression).require_topic_characters()


@pytest.mark.parametrize(
    ("expression", "alternatives"),
    [
        ("orders|clcks", {"orders": "orders", "clcks": "clcks"}),
        ("^(a|b.*)$", {"a": "^(a)$", "b.*": "^(b.*)$"}),
        (r"x\|(?:a|b)-(c|[|]d)", {"a": r"x\|(?:a)-(c|[|]d)", "b": r"x\|(?:b)-(c|[|]d)"}
         | {"c": r"x\|(?:a|b)-(c)", "[|]d": r"x\|(?:a|b)-([|]d)"}),
        ("((a|b)|c)?", {"a": "((a)|c)?", "b": "((b)|c)?", "(a|b)": "((a|b))?", "c": "(c)?"}),
        ("(a|b)+", {}),
        ("((a|b)c)*|d", {"((a|b)c)*": "((a|b)c)*", "d": "d"}),
        ("a|^$|", {"a": "a"}),
        ("(?i)a|b", {}),
        (r"\Qa|b\E", {}),
        (".*", {}),
        (2 * ("(" + "|".join(["a" * 50] * 250) + ")"), {}),
    ],
)  # fmt: skip
def test_alternatives_of_an_expression_are_told_apart(expression: str, alternatives: dict[str, str]) -> None:
    assert dict(single_alternatives(expression)) == alternatives


def test_an_exclusion_without_effect_is_known() -> None:
    assert TopicSelection(".*", "paymentz").excludes_none(["orders", "payments"])
    assert not TopicSelection(".*", "pay.*").excludes_none(["orders", "payments"])
    assert not TopicSelection(".*").excludes_none(["orders"])


@pytest.mark.parametrize(
    ("template", "name"), [("*", "t"), ("copy.*", "copy.t"), ("*.global", "t.global"), ("a-*_b", "a-t_b")]
)
def test_a_template_names_the_destination(template: str, name: str) -> None:
    naming = TopicNaming(template)
    assert naming.destination("t") == name
    assert naming.is_identity == (template == "*")
    assert naming.source(name) == "t"


@pytest.mark.parametrize(
    ("template", "name"), [("copy.*", "copy."), ("copy.*", "other.t"), ("*.global", ".global"), ("a*a", "a")]
)
def test_a_name_that_no_topic_gives_has_no_source(template: str, name: str) -> None:
    assert TopicNaming(template).source(name) is None


@pytest.mark.parametrize("template", ["", "copy", "**", "a b*", "ü*", "/*", "x" * 249 + "*"])
def test_a_template_that_cannot_name_a_topic_is_refused(template: str) -> None:
    with pytest.raises(InvalidRequest):
        TopicNaming(template)


@pytest.mark.parametrize("name", ["a", "a.b-c_D9", "...", "x" * 249])
def test_kafka_accepts_these_names(name: str) -> None:
    assert is_legal_topic(name)


@pytest.mark.parametrize("name", ["", "*", ".", "..", "a b", "a\n", "a*", "ü", "x" * 250, "a/b", "a\0"])
def test_kafka_refuses_these_names(name: str) -> None:
    assert not is_legal_topic(name)


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("orders", {"orders"}),
        ("^(orders|users)$", {"orders", "users"}),
        ("(?:a|b)", {"a", "b"}),
        ("^a$|^b$", {"a", "b"}),
        (r"db\.orders|db.users", {"db.orders", "db.users"}),
        ("orders|users-.*", {"orders"}),
        (".*", set()),
        ("[a-z]+", set()),
        (r"orders\d", set()),
        ("(a)|(b)", set()),
        ("__consumer_offsets", set()),
    ],
)
def test_topics_that_an_expression_names_in_full(expression: str, names: set[str]) -> None:
    assert TopicSelection(expression).names == names


@pytest.mark.parametrize(
    "expression", [".*", ".+", "^.*$", "(.*)", ".*|orders", "(?s:.)+", "[a-zA-Z0-9._-]*", "[^/]+", r"\S+"]
)
def test_an_expression_that_takes_every_topic_is_known_for_it(expression: str) -> None:
    assert TopicSelection(expression).takes_all
    assert not TopicSelection(expression, "orders").takes_all


@pytest.mark.parametrize(
    "expression",
    ["orders", "orders.*", ".*orders", "[a-z].*", r"\w+", "..+", ".{1,200}", "[^.]*", "(?i)[a-z]*"],
)
def test_an_expression_that_leaves_some_out_is_none_of_these(expression: str) -> None:
    assert not TopicSelection(expression).takes_all
