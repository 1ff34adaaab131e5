"""Test admission: the rights of a definition at its clusters, and the limits of its fields."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from mirror.control.admission import Admission, ClusterRights, ClusterUse, SameAs
from mirror.errors import InvalidRequest
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef
from mirror.model.load import TaskLimits
from mirror.model.topics import TopicNaming, TopicSelection
from mirror.replication.transforms import check_transforms
from tests.builders import DESTINATION, SOURCE, a_datastream

ADDRESS = ClusterRef("a.kafka.example.com:9092,b.kafka.example.com:9092")
ADMISSION = Admission(
    {
        SOURCE: ClusterRights(readers=["orders", "web-*"]),
        DESTINATION: ClusterRights(writers=["orders", "web-*"], adopters=["web-mail"]),
    },
    ["*.kafka.example.com:9092"],
)


def another(cluster: ClusterRef, aliases: Collection[ClusterRef]) -> Collection[ClusterRef]:
    return ()


def is_source(cluster: ClusterRef, aliases: Collection[ClusterRef]) -> Collection[ClusterRef]:
    return [one for one in aliases if one == SOURCE]


def owned(owner: str, **more: Any) -> Datastream:
    flags = {f"headrace.{key.replace('_', '-')}": "true" for key in more if key.endswith("existing")}
    rest = {key: value for key, value in more.items() if not key.endswith("existing")}
    return a_datastream(metadata={"owner": owner, **flags}, **rest)


def refused(new: Datastream, former: Datastream | None = None, same_as: SameAs = another) -> str:
    """Return the pointers of the rejected fields, comma-separated, or an empty string."""
    try:
        ADMISSION.check(new, former, same_as)
    except InvalidRequest as error:
        return ",".join(one.pointer for one in error.fields)
    return ""


@pytest.mark.parametrize(
    ("who", "cluster", "access", "may"),
    [
        ("orders", SOURCE, ClusterUse.READ, True),
        ("web-mail", SOURCE, ClusterUse.READ, True),
        ("Orders", SOURCE, ClusterUse.READ, False),
        ("orders ", SOURCE, ClusterUse.READ, False),
        ("*", SOURCE, ClusterUse.READ, False),
        ("", SOURCE, ClusterUse.READ, False),
        ("anybody", SOURCE, ClusterUse.WRITE, True),
        ("orders", DESTINATION, ClusterUse.WRITE, True),
        ("orders", DESTINATION, ClusterUse.ADOPT, False),
        ("web-mail", DESTINATION, ClusterUse.ADOPT, True),
        ("anybody", DESTINATION, ClusterUse.READ, True),
    ],
)
def test_who_may_do_what(who: str, cluster: ClusterRef, access: ClusterUse, may: bool) -> None:
    reason = ADMISSION.reason(who, cluster, access)
    assert (reason is None) is may
    assert reason is None or (repr(who) in reason and cluster in reason)


GROUPS = Admission({SOURCE: ClusterRights(groups=["mirror-*"]), DESTINATION: ClusterRights()}, ["*"])


def foreign_group(name: str, group: str = "", same_as: SameAs = another, **more: Any) -> str:
    """Return the problems of the consumer group of a new datastream, or an empty string."""
    metadata = {"owner": "orders", **({"group.id": group} if group else {})}
    new = a_datastream(name, metadata=metadata, **more)
    try:
        GROUPS.check(new, None, same_as)
    except InvalidRequest as error:
        return "; ".join(f"{one.pointer}: {one.detail}" for one in error.fields)
    return ""


def test_positions_are_committed_as_groups_for_datastreams_only() -> None:
    assert foreign_group("mirror-orders") == ""
    told = foreign_group("billing")
    assert told.startswith("/name: ")
    assert "consumer group 'billing'" in told
    assert foreign_group("billing", "billing")  # equal to its name, which requires no right of its own
    assert foreign_group("billing", "other") == ""  # another group requires a separate right
    assert foreign_group("billing", source=DESTINATION, destination=SOURCE) == ""
    assert foreign_group("billing", source=ADDRESS) == ""
    assert foreign_group("billing", same_as=is_source, source=ADDRESS)


def test_what_is_stored_commits_on_as_its_group_and_is_remarked_on() -> None:
    stored = a_datastream("billing", metadata={"owner": "orders"})
    assert "consumer group 'billing'" in GROUPS.objection(stored)
    changed = replace(stored, selection=TopicSelection("other"))
    GROUPS.check(changed, stored, another)


def test_a_new_datastream_needs_the_rights_of_its_owner() -> None:
    assert refused(owned("orders")) == ""
    assert refused(owned("anybody")) == "/source/cluster,/destination/cluster"
    assert refused(owned("anybody", source=DESTINATION, destination=SOURCE)) == ""
    within = {"source": DESTINATION, "naming": TopicNaming("copy.*")}
    assert refused(owned("anybody", **within)) == "/destination/cluster"
    assert refused(owned("orders", adopt_existing=True)) == "/destination/adopt"
    assert refused(owned("orders", grow_existing=True)) == "/destination/adopt,/destination/grow_existing"
    assert refused(owned("web-mail", grow_existing=True, adopt_existing=True)) == ""


@pytest.mark.parametrize(
    "address",
    [
        "evil.example.com:9092",
        "a.kafka.example.com:9093",
        "a.kafka.example.com:9092,evil.example.com:9092",
        "a.kafka.example.com.evil.example:9092",
        "[::1]:9092",
    ],
)
def test_an_address_that_no_pattern_allows_is_refused(address: str) -> None:
    for role in ("source", "destination"):
        assert refused(owned("orders", **{role: ClusterRef(address)})) == f"/{role}/cluster"


def test_an_address_whose_servers_all_match_is_possible() -> None:
    assert refused(owned("anybody", source=ADDRESS, destination=SOURCE)) == ""
    assert refused(owned("anybody", source=ClusterRef(ADDRESS.upper()), destination=SOURCE)) == ""


def test_no_address_is_possible_by_default() -> None:
    with pytest.raises(InvalidRequest, match="address"):
        Admission({SOURCE: ClusterRights()}).check(
            a_datastream(source=ADDRESS, destination=SOURCE), None, another
        )


def test_a_cluster_under_its_address_has_the_rights_of_its_alias() -> None:
    by_address = {"source": ADDRESS, "destination": ClusterRef("c.kafka.example.com:9092")}
    assert refused(owned("anybody", **by_address)) == ""
    assert refused(owned("anybody", **by_address), same_as=is_source) == "/source/cluster"
    assert refused(owned("orders", **by_address), same_as=is_source) == ""
    with pytest.raises(InvalidRequest, match=f"cluster source .*{ADDRESS}"):
        ADMISSION.check(owned("anybody", **by_address), None, is_source)


def test_where_everybody_may_everything_no_cluster_is_asked_what_it_is() -> None:
    def never(cluster: ClusterRef, aliases: Collection[ClusterRef]) -> Collection[ClusterRef]:
        raise AssertionError(cluster)

    open_to_all = Admission({SOURCE: ClusterRights()}, ["*"])
    open_to_all.check(a_datastream(source=ADDRESS, destination=SOURCE), None, never)


def test_a_change_is_looked_at_where_it_changes_what_is_decided() -> None:
    stored = owned("anybody")
    assert refused(owned("anybody", pauses={}), stored) == ""
    assert refused(a_datastream(metadata={"owner": "anybody", "note": "x"}), stored) == ""
    wider = a_datastream(metadata={"owner": "anybody"}, topics="t")
    assert wider.selection == TopicSelection("t")
    assert refused(wider, stored) == "/source/cluster,/destination/cluster"
    assert refused(owned("orders"), stored) == ""
    assert refused(stored, owned("orders")) == "/source/cluster,/destination/cluster"


def test_of_known_callers_the_principal_counts_and_not_the_owner() -> None:
    ADMISSION.check(owned("anybody"), None, another, "orders")
    with pytest.raises(InvalidRequest, match=r"'mallory'.*\bread\b.*\bsource\b"):
        ADMISSION.check(owned("orders"), None, another, "mallory")
    stored = owned("orders")
    ADMISSION.check(owned("other"), stored, another, "mallory")  # a change of owner needs no right
    wider = a_datastream(metadata={"owner": "orders"}, topics="t")
    with pytest.raises(InvalidRequest, match="'mallory'"):
        ADMISSION.check(wider, stored, another, "mallory")


def test_a_change_that_lets_adopted_topics_grow_takes_the_right_to_adopt() -> None:
    stored = owned("web-mail", adopt_existing=True)
    grows = owned("web-mail", adopt_existing=True, grow_existing=True)
    ADMISSION.check(grows, stored, another, "web-mail")
    with pytest.raises(InvalidRequest) as caught:
        ADMISSION.check(grows, stored, another, "orders")
    assert "/destination/grow_existing" in [one.pointer for one in caught.value.fields]


def test_where_principals_count_a_stored_owner_is_not_objected_to() -> None:
    knowing = replace(ADMISSION, knows_callers=True)
    assert knowing.objection(owned("anybody")) == ""
    assert "is not configured" in knowing.refusal(owned("anybody", source=ClusterRef("gone")))
    assert knowing.refusal(owned("anybody")) == ""


def test_what_is_stored_runs_on_and_is_objected_to() -> None:
    assert ADMISSION.objection(owned("orders")) == ""
    told = ADMISSION.objection(owned("anybody"))
    assert re.search(r"'anybody'.*\bread\b.*\bsource\b", told)


@pytest.mark.parametrize(
    ("metadata", "everybody", "some"),
    [
        ({}, True, False),
        ({"headrace.adopt-existing": "true"}, True, True),
        ({"headrace.adopt-existing": "false"}, False, False),
        ({"headrace.grow-existing": "true"}, True, True),
        ({"headrace.grow-existing": "true", "headrace.adopt-existing": "false"}, False, False),
    ],
)
def test_topics_that_were_there_are_adopted_where_everybody_may_or_it_is_said(
    metadata: dict[str, str], everybody: bool, some: bool
) -> None:
    one = a_datastream(metadata=metadata)
    assert Admission({DESTINATION: ClusterRights()}).adopts(one, another) is everybody
    assert ADMISSION.adopts(one, another) is some
    by_address = replace(one, destination=ADDRESS)
    assert ADMISSION.adopts(by_address, another) is everybody
    assert ADMISSION.adopts(by_address, lambda _, aliases: aliases) is some


def test_an_owner_has_a_name_as_datastreams_have() -> None:
    everybody = Admission(dict.fromkeys((SOURCE, DESTINATION), ClusterRights()))
    for owner in ("a/b", "..", "a\nb", " a", "x" * 201, "\u202eevil", ""):
        stored = a_datastream(metadata={"owner": owner})
        with pytest.raises(InvalidRequest) as caught:
            everybody.check(stored, None, another)
        assert [one.pointer for one in caught.value.fields] == ["/owner"]
        everybody.check(a_datastream(metadata={"owner": owner}, topics="t"), stored, another)
    everybody.check(a_datastream(metadata={"owner": "the.team@example.com"}), None, another)


@pytest.mark.parametrize("field", ["include", "exclude"])
def test_an_expression_of_a_new_datastream_has_4_kilobytes_at_most(field: str) -> None:
    everybody = Admission(dict.fromkeys((SOURCE, DESTINATION), ClusterRights()))

    def selecting(size: int) -> Datastream:
        texts = {"include": "t", "exclude": "", field: "a" * size}
        return replace(a_datastream(), selection=TopicSelection(texts["include"], texts["exclude"]))

    everybody.check(selecting(4_096), None, another)
    with pytest.raises(InvalidRequest, match=r"\b4098\b") as caught:
        everybody.check(selecting(4_098), None, another)
    key = {"include": "topics"}.get(field, field)
    assert [one.pointer for one in caught.value.fields] == [f"/source/{key}"]
    everybody.check(replace(selecting(20_000), naming=TopicNaming("x.*")), selecting(20_000), another)


@pytest.mark.parametrize(("field", "key"), [("include", "topics"), ("exclude", "exclude")])
def test_a_list_of_topics_with_commas_is_refused_where_it_is_new(field: str, key: str) -> None:
    everybody = Admission(dict.fromkeys((SOURCE, DESTINATION), ClusterRights()))
    texts = {"include": ".*", "exclude": "", field: "orders,payments"}
    listing = replace(a_datastream(), selection=TopicSelection(texts["include"], texts["exclude"]))
    with pytest.raises(InvalidRequest) as refused:
        everybody.check(listing, None, another)
    assert [one.pointer for one in refused.value.fields] == [f"/source/{key}"]
    with pytest.raises(InvalidRequest):
        everybody.check(listing, a_datastream(), another)
    everybody.check(replace(listing, naming=TopicNaming("x.*")), listing, another)


def test_limits_ask_for_no_more_tasks_than_the_operator_allows() -> None:
    few = Admission(dict.fromkeys((SOURCE, DESTINATION), ClusterRights()), most_tasks=10)
    few.check(a_datastream(limits=TaskLimits(10, 10)), None, another)
    for limits, field in ((TaskLimits(11), "/limits/min_tasks"), (TaskLimits(1, 11), "/limits/max_tasks")):
        with pytest.raises(InvalidRequest, match=f"{field}: .* 10 tasks"):
            few.check(a_datastream(limits=limits), None, another)
        few.check(a_datastream(limits=limits, topics="t"), a_datastream(limits=limits), another)


@pytest.mark.parametrize(
    ("word", "what"),
    [
        ("strategy", "strategy: .*placement strategy"),
        ("provider", "provider: .*load provider"),
    ],
)
def test_a_plug_in_that_there_is_not_is_refused_with_those_that_there_are(word: str, what: str) -> None:
    everybody = Admission(
        dict.fromkeys((SOURCE, DESTINATION), ClusterRights()),
        strategies=lambda: ("simple", "one-each"),
        providers=lambda: ("simple", "one-each"),
    )
    mine, other = (
        a_datastream(metadata={"headrace-placement": f"{word} {name}"}) for name in ("one-each", "other")
    )
    everybody.check(mine, None, another)
    for former in (None, mine, a_datastream()):
        with pytest.raises(InvalidRequest, match=f"{what} 'other'"):
            everybody.check(other, former, another)
    with pytest.raises(InvalidRequest) as caught:
        everybody.check(other, None, another)
    assert "simple, one-each" in caught.value.advice
    everybody.check(replace(other, selection=TopicSelection("t")), other, another)
    everybody.check(a_datastream(), other, another)


def test_a_transform_that_cannot_be_applied_is_refused_unless_it_was_there() -> None:
    clusters = dict.fromkeys((SOURCE, DESTINATION), ClusterRights())
    everybody = Admission(clusters, transforms=check_transforms)
    mine = a_datastream(metadata={"headrace.transforms": "keep-keys:a\ndrop-header:h"})
    everybody.check(mine, None, another)
    for text, advice in (("nosuch:1", "keep-keys"), ("keep-keys:a\ndrop-header", "drop-header:NAME")):
        other = a_datastream(metadata={"headrace.transforms": text})
        for former in (None, mine):
            with pytest.raises(InvalidRequest, match="/policies/transforms") as caught:
                everybody.check(other, former, another)
            assert advice in caught.value.advice
        everybody.check(replace(other, selection=TopicSelection("t")), other, another)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ssl.key.password", "hunter2"),
        ("producer.SASL_PassWord", "hunter2"),
        ("sasl.jaas.config", "hunter2"),
        ("api-key", "hunter2"),
        ("AWS_SECRET_ACCESS_KEY", "hunter2"),
        ("basic.auth.user.info", "me:hunter2"),
        ("access.token", "hunter2"),
        ("credentials", "hunter2"),
        ("note", "org.apache.kafka.common.security.plain.PlainLoginModule required x=hunter2;"),
        ("note", "user=me password = hunter2"),
        ("note", "https://me:hunter2@registry.example.com"),
        ("note", "-----BEGIN RSA PRIVATE KEY----- hunter2"),
    ],
)
def test_a_secret_is_refused_and_not_repeated(key: str, value: str) -> None:
    everybody = Admission(dict.fromkeys((SOURCE, DESTINATION), ClusterRights()))
    stored = a_datastream(metadata={key: value})
    with pytest.raises(InvalidRequest, match="secret") as caught:
        everybody.check(stored, None, another)
    assert "hunter2" not in str(caught.value)
    assert caught.value.fields
    everybody.check(replace(stored, selection=TopicSelection("t")), stored, another)
    assert "secret" in everybody.objection(stored)
    assert "hunter2" not in everybody.objection(stored)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ssl.key.password", "${file:/run/secrets/kafka:key}"),
        ("ssl.key.password", ""),
        ("tokenizer", "words"),
        ("note", "see https://wiki.example.com:8443/passwords"),
        ("partition.key", "customer"),
    ],
)
def test_what_is_no_secret_is_kept(key: str, value: str) -> None:
    everybody = Admission(dict.fromkeys((SOURCE, DESTINATION), ClusterRights()))
    everybody.check(a_datastream(metadata={key: value}), None, another)


@pytest.mark.parametrize("pattern", ["[::1]:*", "[::1]:9092", "[*]:9092", "::1:*"])
def test_an_ipv6_address_is_allowed_as_it_is_written(pattern: str) -> None:
    allowing = Admission(dict.fromkeys((SOURCE, DESTINATION), ClusterRights()), addresses=[pattern])
    allowing.check(replace(a_datastream(), source=ClusterRef("[::1]:9092")), None, another)
    with pytest.raises(InvalidRequest):
        allowing.check(replace(a_datastream(), source=ClusterRef("[::2]:9093")), None, another)
