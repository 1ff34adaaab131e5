"""What a destination topic takes, and the rules that follow for the lanes that write to it. The only writer
of a lane's rules, also of what they learn from refusals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from mirror.client.cluster import Cluster
from mirror.lane.ledger import OffsetClass
from mirror.lane.progress import SourceIdentity
from mirror.lane.rules import LARGEST_BATCH, MergeRule, Refusal, RoutingRules
from mirror.model.datastreams.policy import CopyPath, CopyPolicy, Isolation
from mirror.protocol import produce
from mirror.protocol.control.topics import TopicSetting, describe_settings
from mirror.replication.live_lane import LiveLane
from mirror.replication.options import CopyingOptions
from mirror.replication.transforms import load_transforms

_AT_ONCE: Final = 200
_LEAST_BATCH: Final = 1024


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """What decides how the batches of a topic must look: its settings, and what its brokers can read."""

    batch_bytes: int = LARGEST_BATCH
    stamps_append_time: bool = False
    takes_zstd: bool = True


class LimitBook:
    """Looks the limits of topics up, for each topic again after a while."""

    def __init__(self, cluster: Cluster, age_seconds: float) -> None:
        self._cluster = cluster
        self._age = age_seconds
        self._known: dict[str, tuple[float, TopicLimits]] = {}

    async def look_up(self, topics: Iterable[str]) -> Mapping[str, TopicLimits]:
        """The limits of each topic; the defaults where we may not look. Raises Unreachable."""
        now = self._cluster.loop.now()
        wanted = set(topics)
        missing = sorted(topic for topic in wanted if self._is_old(topic, now))
        for start in range(0, len(missing), _AT_ONCE):
            part = missing[start : start + _AT_ONCE]
            ask = partial(self._cluster.ask, describe_settings(part))
            found = await self._cluster.patiently(ask)
            takes_zstd = self._cluster.newest(produce.API) >= produce.ZSTD_FROM
            for topic in part:
                limits = replace(_limits(found.get(topic, {})), takes_zstd=takes_zstd)
                self._known[topic] = (now, limits)
        return {topic: self._known[topic][1] for topic in wanted}

    def forget(self, topic: str) -> None:
        """Look again next time."""
        self._known.pop(topic, None)

    def _is_old(self, topic: str, now: float) -> bool:
        known = self._known.get(topic)
        return known is None or now - known[0] > self._age


def _limits(settings: Mapping[str, TopicSetting]) -> TopicLimits:
    size, stamp = settings.get("max.message.bytes"), settings.get("message.timestamp.type")
    return TopicLimits(
        int(size.value) if size is not None and size.value.isdecimal() else LARGEST_BATCH,
        stamp is not None and stamp.value == "LogAppendTime",
    )


def learn_cap(lane: LiveLane, size: int) -> None:
    """The destination takes no batch of `size` bytes, whatever its settings say: make smaller ones."""
    lane.size_cap = max(size // 2, _LEAST_BATCH)


def forget_cap(lane: LiveLane) -> None:
    """The destination's settings may have changed."""
    lane.size_cap = None


def open_refused(lane: LiveLane, first: int, following: int, *, singly: bool) -> None:
    """Encode the batches of [first, following) again, and those between them and what was refused before;
    `singly`: record by record."""
    known, epoch = _rules_of(lane, lane.source), lane.source.leader_epoch
    if known.opened_below > lane.checkpoint:
        first, epoch = min(first, known.opened_from), max(epoch, known.opened_epoch)
    lane.rules = replace(
        known, opened_from=first, opened_below=following, opened_epoch=epoch, opens_singly=singly
    )


def omit(lane: LiveLane, offsets: Sequence[int], offset_class: OffsetClass, source: SourceIdentity) -> None:
    """Leave these records of the source out. `source`: the lane's when they were refused."""
    known, refusal = _rules_of(lane, source), Refusal(offset_class, source.leader_epoch)
    lane.rules = replace(known, omitted={**known.omitted, **dict.fromkeys(offsets, refusal)})


def leave_unopened(
    lane: LiveLane, last_offset: int, offset_class: OffsetClass, source: SourceIdentity
) -> None:
    """Leave out the batch that ends with this source offset. `source`: the lane's when it met the batch."""
    known, refusal = _rules_of(lane, source), Refusal(offset_class, source.leader_epoch)
    lane.rules = replace(known, unopened={**known.unopened, last_offset: refusal})


def forget_other_topics(lane: LiveLane) -> None:
    """The lane's source is known now: forget refusals of a topic that it has replaced.

    Those of the topic itself stay. An exactly-once lane returns to the former topic's progress when its first
    transaction is aborted; it has to know the batches that it meets in the new topic once more."""
    lane.rules = lane.rules.with_refusals_of(lane.source.topic_id, lane.source.cluster_id)


def _rules_of(lane: LiveLane, source: SourceIdentity) -> RoutingRules:
    """The lane's rules, to note a refusal of that topic in."""
    rules = lane.rules.with_refusals_of(source.topic_id, source.cluster_id)
    life = max(rules.refused_life, lane.life)
    return replace(rules, refused_of=(source.topic_id, source.cluster_id), refused_life=life)


class RuleBook:
    """Rules by policy and limits; lanes with the same share one object."""

    def __init__(self, settings: CopyingOptions) -> None:
        self._merges = settings.merge_small_batches
        self._settings = settings
        self._known: dict[tuple[CopyPolicy, TopicLimits], RoutingRules] = {}

    def apply(self, lane: LiveLane, limits: TopicLimits) -> None:
        """Set the rules of a lane that starts. Raises ConfigError for a transform that is not known."""
        lane.rules = self.rules(lane, limits)

    def rules(self, lane: LiveLane, limits: TopicLimits) -> RoutingRules:
        """The rules for a lane that starts, with what it has learned from refusals of records that are still
        to come: where it starts is what is stored, not what an open transaction held. A position of -1 is
        still to be found, and one of an earlier life may lie behind them in another history."""
        policy = lane.spec.policy
        shared = self._known.get((policy, limits))
        if shared is None:
            shared = self._known[policy, limits] = self._make(policy, limits)
        learned = lane.rules
        checkpoint = min(lane.checkpoint, lane.position) if lane.life >= learned.refused_life else -1
        omitted = {offset: refusal for offset, refusal in learned.omitted.items() if offset >= checkpoint}
        unopened = {last: refusal for last, refusal in learned.unopened.items() if last >= checkpoint}
        is_learned = omitted or unopened or learned.opened_below > checkpoint
        if lane.size_cap is None and not is_learned:
            return shared
        return replace(
            shared,
            batch_limit=min(limits.batch_bytes, lane.size_cap or limits.batch_bytes),
            omitted=omitted,
            unopened=unopened,
            opened_from=learned.opened_from,
            opened_below=learned.opened_below,
            opened_epoch=learned.opened_epoch,
            opens_singly=learned.opens_singly,
            refused_of=learned.refused_of,
            refused_life=learned.refused_life,
        )

    def _make(self, policy: CopyPolicy, limits: TopicLimits) -> RoutingRules:
        merges = self._merges and policy.path is CopyPath.AUTO
        return RoutingRules(
            read_committed=policy.isolation is Isolation.READ_COMMITTED,
            batch_limit=limits.batch_bytes,
            merge=MergeRule() if merges else None,
            keeps_append_time=not limits.stamps_append_time,
            takes_zstd=limits.takes_zstd,
            opens_records=policy.path is CopyPath.RECORD,
            transforms=load_transforms(policy.transforms),
            transform_names=policy.transforms,
            opened_bytes=self._settings.opened_batch_bytes,
            opened_records=self._settings.opened_batch_records,
        )
