"""What a load provider promises, as a suite of tests that each one has to pass.

    from headrace.plug_ins.load_provider_contract import LoadProviderContract

    class TestMyProvider(LoadProviderContract):
        def provider(self):
            return make({"url": "…"})
        def known(self):
            return ClusterRef("east"), [TopicPartition("orders", 0)]

pytest finds the tests of such a class. Say `pytest.register_assert_rewrite` of this module before it is
imported to see values of a comparison that fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.plug_ins.load_answers import CheckedLoads
from mirror.adapters.system_clock import SystemClock
from mirror.errors import LoadUnavailable
from mirror.model.identifiers import ClusterRef
from mirror.model.load import LoadLevel, LoadReport
from mirror.model.topics import TopicPartition
from mirror.ports import LoadProvider

UNHEARD: Final = TopicPartition("headrace-contract-no-such-topic", 0)
_DAY_MS: Final = 86_400_000


class LoadProviderContract:
    """Inherit it, and say what to ask."""

    def provider(self) -> LoadProvider:
        """The one to be held to the contract, which knows `known`."""
        raise NotImplementedError

    def known(self) -> tuple[ClusterRef, Sequence[TopicPartition]]:
        """A source cluster, and at least one partition of it of which the provider has a load of its own."""
        raise NotImplementedError

    def _ask(self, *more: TopicPartition) -> LoadReport:
        cluster, partitions = self.known()
        return CheckedLoads("contract", self.provider()).loads(cluster, [*partitions, *more])

    def test_it_answers_with_possible_rates(self) -> None:
        """`CheckedLoads` refuses others, also while the service runs."""
        report, (_, known) = self._ask(), self.known()
        assert {key for key in known if report.loads[key].level is LoadLevel.PARTITION} == set(known)

    def test_it_says_nothing_of_what_nobody_asked_for(self) -> None:
        """However much it knows."""
        cluster, partitions = self.known()
        report = self.provider().loads(cluster, partitions[:1])
        assert report.loads.keys() <= set(partitions[:1]), "it answers about other partitions too"

    def test_an_unknown_partition_is_no_idle_one(self) -> None:
        """Zero is a load. What is not known is left out, or is a default that says so."""
        load = self._ask(UNHEARD).loads.get(UNHEARD)
        assert load is None or load.level is LoadLevel.DEFAULT, f"it makes up {load}"

    def test_a_cluster_that_it_does_not_know_is_unavailable(self) -> None:
        """An answer without loads says the same."""
        _, partitions = self.known()
        try:
            report = self.provider().loads(ClusterRef("headrace-contract-no-such-cluster"), partitions)
        except LoadUnavailable:
            return
        assert report.is_blind, "it has loads of a cluster that nobody has"

    def test_times_are_epoch_milliseconds(self) -> None:
        """Plans go on with loads of some age, and say which age that is."""
        report, now_ms = self._ask(), SystemClock().now_ms()
        times = [report.measured_at_ms, *(load.measured_at_ms for load in report.loads.values())]
        late = [at for at in times if at is not None and at > now_ms + _DAY_MS]
        assert not late, f"{late} are still to come"

    def test_the_order_of_the_question_does_not_count(self) -> None:
        """The same partitions have answers."""
        cluster, partitions = self.known()
        one, other = (self.provider().loads(cluster, order) for order in (partitions, partitions[::-1]))
        assert one.loads.keys() == other.loads.keys()

    def test_nothing_is_answered_about_nothing(self) -> None:
        """Or there are no loads to be had."""
        cluster, _ = self.known()
        try:
            report = self.provider().loads(cluster, [])
        except LoadUnavailable:
            return
        assert not report.loads
