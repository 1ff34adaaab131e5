"""Test suite that every load provider must pass: the contract of load providers.

    from headrace.plug_ins.load_provider_contract import LoadProviderContract

    class TestMyProvider(LoadProviderContract):
        def provider(self):
            return make({"url": "…"})
        def known(self):
            return ClusterRef("east"), [TopicPartition("orders", 0)]

pytest runs the inherited tests of this class. To see the values of a failing comparison, call
`pytest.register_assert_rewrite` for this module before you import it.
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
    """Base class for the tests of a load provider. Override `provider` and `known`."""

    def provider(self) -> LoadProvider:
        """Return the load provider under test, which must know the loads of the partitions in `known`."""
        raise NotImplementedError

    def known(self) -> tuple[ClusterRef, Sequence[TopicPartition]]:
        """Return a source cluster and one or more of its partitions for which the provider knows loads of
        level `partition`."""
        raise NotImplementedError

    def _ask(self, *more: TopicPartition) -> LoadReport:
        cluster, partitions = self.known()
        return CheckedLoads("contract", self.provider()).loads(cluster, [*partitions, *more])

    def test_it_answers_with_possible_rates(self) -> None:
        """Check that rates are valid; at run time, `CheckedLoads` rejects invalid rates."""
        report, (_, known) = self._ask(), self.known()
        assert {key for key in known if report.loads[key].level is LoadLevel.PARTITION} == set(known)

    def test_reports_only_requested_partitions(self) -> None:
        """Check that the report contains only requested partitions."""
        cluster, partitions = self.known()
        report = self.provider().loads(cluster, partitions[:1])
        assert report.loads.keys() <= set(partitions[:1]), "partitions that were not requested"

    def test_an_unknown_partition_is_no_idle_one(self) -> None:
        """Check that an unknown load is omitted or has the level `default`.

        A load of zero would mean that the partition is idle.
        """
        load = self._ask(UNHEARD).loads.get(UNHEARD)
        assert load is None or load.level is LoadLevel.DEFAULT, f"invented load {load}"

    def test_a_cluster_that_it_does_not_know_is_unavailable(self) -> None:
        """Check that an unknown cluster raises LoadUnavailable or has a report without loads."""
        _, partitions = self.known()
        try:
            report = self.provider().loads(ClusterRef("headrace-contract-no-such-cluster"), partitions)
        except LoadUnavailable:
            return
        assert report.is_blind, "the report has loads of an unknown cluster"

    def test_times_are_epoch_milliseconds(self) -> None:
        """Check that times are epoch milliseconds, because plans use the age of loads."""
        report, now_ms = self._ask(), SystemClock().now_ms()
        times = [report.measured_at_ms, *(load.measured_at_ms for load in report.loads.values())]
        late = [at for at in times if at is not None and at > now_ms + _DAY_MS]
        assert not late, f"times in the future: {late}"

    def test_the_order_of_the_question_does_not_count(self) -> None:
        """Check that the order of the requested partitions does not affect the result."""
        cluster, partitions = self.known()
        forward, backward = (
            self.provider().loads(cluster, order) for order in (partitions, partitions[::-1])
        )
        assert forward.loads.keys() == backward.loads.keys()

    def test_no_partitions_have_no_loads(self) -> None:
        """Check that a request for no partitions returns no loads or raises LoadUnavailable."""
        cluster, _ = self.known()
        try:
            report = self.provider().loads(cluster, [])
        except LoadUnavailable:
            return
        assert not report.loads
