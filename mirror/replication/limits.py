"""Limits of destination topics, and the rules for processing batches that follow from them.

Only this module changes the rules of a lane, including rules learned from rejections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from mirror.client.cluster import Cluster
from mirror.lane.lane import Lane
from mirror.lane.ledger import OffsetClass
from mirror.lane.progress import SourceIdentity
from mirror.lane.rules import LARGEST_BATCH, MergeRule, Refusal, RoutingRules
from mirror.model.datastreams.policy import CopyPath, CopyPolicy, Isolation
from mirror.protocol import produce
from mirror.protocol.control.topics import TopicSetting, describe_settings
from mirror.replication.options import CopyingOptions
from mirror.replication.transforms import load_transforms

_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """Limits of a destination topic: its settings, and the batch formats that its brokers can read."""

    batch_bytes: int = LARGEST_BATCH
    stamps_append_time: bool = False
    takes_zstd: bool = True


class TopicLimitCache:
    """Cache of the limits of destination topics. Entries expire."""

    def __init__(self, cluster: Cluster, age_seconds: float) -> None:
        self._cluster = cluster
        self._age = age_seconds
        self._known: dict[str, tuple[float, TopicLimits]] = {}

    async def look_up(self, topics: Iterable[str]) -> Mapping[str, TopicLimits]:
        """Return the limits of each topic; defaults without permission to describe. Raises Unreachable."""
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
        """Drop the cached limits of a topic."""
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


def learn_cap(lane: Lane, size: int) -> None:
    """Set the maximum batch size of the lane to half of `size`, the size of a rejected batch. A larger record
    has its own batch, which the destination accepts or rejects."""
    lane.size_cap = max(size // 2, 1)


def forget_cap(lane: Lane) -> None:
    """Remove the maximum set by `learn_cap`, because the destination's settings may have changed."""
    lane.size_cap = None


def open_refused(lane: Lane, first: int, following: int, *, singly: bool) -> None:
    """Have the rejected batches in [first, following) encoded again. The range is extended to earlier
    rejected batches, if any. With `singly`, each record becomes a batch."""
    known, epoch = _rules_of(lane, lane.progress.source), lane.progress.source.leader_epoch
    if known.opened_below > lane.checkpoint:
        first, epoch = min(first, known.opened_from), max(epoch, known.opened_epoch)
    lane.read.rules = replace(
        known, opened_from=first, opened_below=following, opened_epoch=epoch, opens_singly=singly
    )


def omit(lane: Lane, offsets: Sequence[int], offset_class: OffsetClass, source: SourceIdentity) -> None:
    """Skip the given source records from now on. `source`: the lane's source at the time of the rejection."""
    known, refusal = _rules_of(lane, source), Refusal(offset_class, source.leader_epoch)
    lane.read.rules = replace(known, omitted={**known.omitted, **dict.fromkeys(offsets, refusal)})


def leave_unopened(lane: Lane, last_offset: int, offset_class: OffsetClass, source: SourceIdentity) -> None:
    """Skip the unreadable batch that ends at this source offset from now on. `source`: the lane's source at
    the time of reading."""
    known, refusal = _rules_of(lane, source), Refusal(offset_class, source.leader_epoch)
    lane.read.rules = replace(known, unopened={**known.unopened, last_offset: refusal})


def forget_unnamed_topic(lane: Lane) -> None:
    """Drop the rejections of a source topic without a topic id, because another log replaces it. A recreated
    topic cannot be distinguished, but its leader epochs start over."""
    if not lane.progress.source.topic_id:
        lane.read.rules = lane.read.rules.without_refusals()


def forget_other_topics(lane: Lane) -> None:
    """Drop the rejections of former source topics, after the current topic is known.

    Rejections in the current topic remain valid if the first transaction in this topic aborts, and the lane
    therefore returns to the progress of the former topic.
    """
    lane.read.rules = lane.read.rules.with_refusals_of(
        lane.progress.source.topic_id, lane.progress.source.cluster_id
    )


def _rules_of(lane: Lane, source: SourceIdentity) -> RoutingRules:
    """Return the lane's rules without the rejections of source topics other than `source`."""
    rules = lane.read.rules.with_refusals_of(source.topic_id, source.cluster_id)
    life = max(rules.refused_life, lane.progress.life)
    return replace(rules, refused_of=(source.topic_id, source.cluster_id), refused_life=life)


class RoutingRuleCache:
    """Cache of processing rules. Lanes with equal policy and limits share an object."""

    def __init__(self, settings: CopyingOptions) -> None:
        self._merges = settings.merge_small_batches
        self._settings = settings
        self._known: dict[tuple[CopyPolicy, TopicLimits], RoutingRules] = {}

    def apply(self, lane: Lane, limits: TopicLimits) -> None:
        """Set the processing rules of a starting lane. Raises ConfigError for an unknown transform."""
        lane.read.rules = self.rules(lane, limits)

    def rules(self, lane: Lane, limits: TopicLimits) -> RoutingRules:
        """Return the rules of a starting lane, including known rejections from its start position on.

        The start is the stored position, not the position in an open transaction. All rejections are kept if
        the position is -1 (unknown) or belongs to an earlier life of the log.
        """
        policy = lane.spec.policy
        shared = self._known.get((policy, limits))
        if shared is None:
            shared = self._known[policy, limits] = self._make(policy, limits)
        learned = lane.read.rules
        checkpoint = (
            min(lane.checkpoint, lane.read.position) if lane.progress.life >= learned.refused_life else -1
        )
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
            record_limit=limits.batch_bytes,
            merge=MergeRule() if merges else None,
            keeps_append_time=not limits.stamps_append_time,
            takes_zstd=limits.takes_zstd,
            opens_records=policy.path is CopyPath.RECORD,
            transforms=load_transforms(policy.transforms),
            transform_names=policy.transforms,
            opened_bytes=self._settings.opened_batch_bytes,
            opened_records=self._settings.opened_batch_records,
        )
