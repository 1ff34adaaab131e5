"""Continuous audit of the lanes that an instance runs.

An audit run compares the records that were copied since the previous run. The auditor splits the records into
slices, which end at the window boundaries of event time. For each slice, the run first writes the audit rows,
and then the state of the lane. If an instance is killed between the two writes, the next owner of the lane
audits the slice again, and the new rows replace the earlier rows.

A row contains all counts of its window up to an offset. The time of a row is the start of its run. An audit
run always continues from the newest stored state, even if another instance wrote that state. Therefore, an
instance that was frozen while another instance took over the lane never overwrites newer rows.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from mirror.audit.counts import CountRules
from mirror.audit.reader import NO_END, LogRange
from mirror.audit.verdicts import Finding, Verdict
from mirror.audit.watermark import PartitionWatermark
from mirror.audit.windows import WindowCounts, WindowTally
from mirror.errors import HeadraceError
from mirror.jobs.audits.deletions import deleted_copies, retention_of
from mirror.jobs.audits.lane_logs import (
    AuditLog,
    LaneEnds,
    LaneKeys,
    LaneLogs,
    is_truncated,
    read_ends,
    read_logs,
    state_key,
)
from mirror.jobs.audits.lanes import AuditedLanes, AuditOptions, AuditSlice, LaneAuditReport
from mirror.jobs.audits.log_windows import LogWindow, LogWindows, first_window, is_other_topic
from mirror.jobs.audits.pace import rest_seconds
from mirror.jobs.audits.record import LaneAudit, OpenWindow, read_lane_audit
from mirror.jobs.audits.rows import AuditOrigin, window_row, write_rows
from mirror.jobs.partition_verdict import PartitionVerdict
from mirror.jobs.progress_logs import progress_log
from mirror.jobs.verify_job import VerifyJob, audit_partition
from mirror.model.audit_window import AuditWindow
from mirror.model.datastreams.audit_mode import AuditMode
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.reasons import reason_of
from mirror.model.topics import TopicPartition
from mirror.protocol.control.topics import describe_each
from mirror.replication.context import EngineContext

SAMPLED_SHARE: Final = 1 / 20
"""Share of the event-time windows that are compared record by record in the mode `sampled`."""
_MOST_OFFSETS: Final = 50_000
"""Maximum number of offsets in a slice that is compared record by record, because unmatched records use
memory."""


class Auditor:
    """Audits the lanes of one instance. Not thread-safe."""

    def __init__(self, context: EngineContext, options: AuditOptions) -> None:
        self._context = context
        self._options = options
        self._states: dict[LaneKey, LaneAudit] = {}
        self._stored: dict[LaneKey, bytes | None] = {}
        """Stored form of each lane's state, as last read or written by this instance."""
        self._marks: dict[LaneKey, PartitionWatermark] = {}
        self._windows: dict[LaneKey, int] = {}
        """Start of the event-time window that each lane audited last."""
        self._settled: dict[LaneKey, LaneEnds] = {}
        """Log ends of the lanes whose records have all been compared without a difference, by lane."""
        self._logs_of: dict[ClusterRef, AuditLog] = {}
        self._destinations: dict[LaneKey, ClusterRef] = {}
        self._pending: list[AuditWindow] = []
        self._unsaved: dict[ClusterRef, dict[bytes, bytes]] = {}
        self._rested = context.loop.now(), time.thread_time()
        self.reports: Mapping[DatastreamName, Mapping[TopicPartition, LaneAuditReport]] = {}
        """Latest audit report of each lane of each datastream. Safe to read from any thread."""

    def keep(self, audited: Collection[AuditedLanes]) -> None:
        """Drop the state of all lanes that are not in `audited`, because other instances may audit them."""
        names = {lanes.name for lanes in audited}
        self.reports = {name: found for name, found in self.reports.items() if name in names}
        keys = {LaneKey(GroupName(lanes.job.state), place) for lanes in audited for place in lanes.places}
        for key in self._destinations.keys() - keys:
            destination = self._destinations.pop(key)
            self._log(destination).release(key)
            self._unsaved.get(destination, {}).pop(state_key(key), None)
            self._states.pop(key, None)
            self._stored.pop(key, None)
            self._marks.pop(key, None)
            self._windows.pop(key, None)
            self._settled.pop(key, None)

    def _log(self, destination: ClusterRef) -> AuditLog:
        known = self._logs_of.get(destination)
        if known is None:
            known = self._logs_of[destination] = progress_log(AuditLog, self._context, destination)
        return known

    async def run_once(self, lanes: AuditedLanes) -> bool:
        """Audit one slice of each lane, and return whether further slices remain.

        Omits lanes whose stored progress is unreadable. Raises Unreachable.
        """
        await self._send()
        context, job = self._context, lanes.job
        keys = {place: LaneKey(GroupName(job.state), place) for place in lanes.places}
        self._destinations |= dict.fromkeys(keys.values(), job.destination)
        begun_ms = context.clock.now_ms()
        ends = await read_ends(context, lanes, keys)
        changed = self._observe(keys, ends, begun_ms)
        log, windows = self._log(job.destination), self._log_windows(lanes, changed)
        logs, unread = await read_logs(context, lanes, log, changed, ends, windows)
        has_more, problems = False, {place: reason_of(error) for place, error in unread.items()}
        unsaved = self._unsaved.setdefault(job.destination, {})
        for place in logs:
            key, before = changed[place], self._state(changed[place], job)
            progress = logs[place].copy.progress
            try:
                state = replace(before, row_ms=max(begun_ms, before.row_ms + 1))
                state, problems[place] = await self._audited(lanes, key, state, logs[place])
                state = await self._with_late(lanes, key, state, logs[place])
            except HeadraceError as error:
                state, problems[place] = before, reason_of(error)
            self._states[key] = state
            self._settle(key, ends[place], logs[place], problems[place])
            if state.saved != before.saved:
                unsaved[state_key(key)] = state.write()
            is_behind = progress is not None and state.position < progress.next_offset
            has_more |= is_behind and state.position != before.position and not problems[place]
        await self._send()
        failed = await log.save_states(unsaved, context.clock.now_ms())
        for place, key in keys.items():
            name = state_key(key)
            if name in failed:
                problems[place] = reason_of(failed[name])
            elif name in unsaved:
                self._stored[key] = unsaved[name]
        self._unsaved[job.destination] = {name: unsaved[name] for name in failed}
        found = {
            place: self._report(lanes, key, logs.get(place), problems.get(place, ""))
            for place, key in keys.items()
        }
        self.reports = {**self.reports, lanes.name: found}
        return has_more

    def _settle(self, key: LaneKey, ends: LaneEnds, logs: LaneLogs, problem: str) -> None:
        """Mark a lane as settled if all records up to both log ends were compared and are equal."""
        state, progress = self._states[key], logs.copy.progress
        if (
            progress is not None
            and progress.next_offset == state.position == ends.source == logs.source[1]
            and ends.target is not None
            and (state.target_next or 0) == ends.target.offset == logs.target[1]
            and not (problem or state.faults or state.is_stopped or state.late)
        ):
            self._settled[key] = ends
        else:
            self._settled.pop(key, None)

    def _state(self, key: LaneKey, job: VerifyJob) -> LaneAudit:
        """Return the audit state of a lane: the stored state if another instance has changed it, else the
        cached one."""
        stored = self._log(job.destination).state(key)
        if key in self._states and stored == self._stored[key]:
            return self._states[key]
        known = read_lane_audit(stored)
        self._stored[key] = stored
        self._marks[key].resume(known.through_ms, is_stopped=known.is_stopped)
        self._windows.pop(key, None)
        return known

    def _observe(self, keys: LaneKeys, ends: Mapping[TopicPartition, LaneEnds], at_ms: int) -> LaneKeys:
        """Store the current end of each source log, and return the lanes to audit. Lanes without changes
        since a complete comparison are omitted."""
        changed = {}
        for place, key in keys.items():
            mark = self._marks.setdefault(key, PartitionWatermark())
            mark.observe(at_ms, ends[place].source)
            if self._settled.get(key) == ends[place]:
                mark.compared(self._states[key].position, is_clean=True)
                self._states[key] = replace(self._states[key], through_ms=mark.through_ms)
            else:
                changed[place] = key
        return changed

    def _log_windows(self, lanes: AuditedLanes, keys: LaneKeys) -> LogWindows:
        """Return an object that finds the event-time windows of the next records to audit."""
        known = {} if lanes.mode is AuditMode.FULL else self._windows
        starts_ms = {place: known[key] for place, key in keys.items() if key in known}
        positions = {place: self._states[keys[place]].position for place in starts_ms}
        return LogWindows(self._options.window_ms, starts_ms, positions)

    async def _audited(
        self, lanes: AuditedLanes, key: LaneKey, state: LaneAudit, logs: LaneLogs
    ) -> tuple[LaneAudit, str]:
        """Audit the next slice (offset range) of a lane. Return the new state of the lane, and an error
        message or an empty string."""
        copy, mark, place = logs.copy, self._marks[key], key.partition
        progress, history = copy.progress, copy.history
        if progress is None or history is None:
            return state, ""
        if await is_truncated(self._context, lanes.job, place, state, copy):
            state = LaneAudit(row_ms=state.row_ms)  # audited records may have been deleted
            mark.restart()
        topic_id = self._context.cluster(lanes.job.source).topic_id(place.topic)
        if logs.source[1] < progress.next_offset or is_other_topic(topic_id, progress):
            return state, ""  # until the lane detects that the topic was truncated or recreated
        state = state.without_past(logs.source[0], logs.target[0])
        start = max(state.position, progress.ledger.start, logs.source[0])
        start = min(start, max(progress.next_offset, state.position))
        if start > state.position:  # the source has deleted records that the audit has not read
            state = replace(state, target_next=None)
        settled = logs.settled(progress)
        is_cut = settled < progress.next_offset
        if start >= settled and (is_cut or copy.target_end == state.target_next):
            mark.resume(mark.through_ms, is_stopped=state.is_stopped)
            mark.compared(start, is_clean=True)
            return replace(state, through_ms=mark.through_ms, lane=history), ""
        part = await self._slice(lanes, key, start, settled, logs.window)
        part = part._replace(is_last=part.is_last and not is_cut)
        verdict, tally = await self._compared(lanes, place, part, state, logs)
        if verdict.surplus and not part.reads:  # markers of a new owner, or records of another producer
            part = part._replace(reads=True)
            verdict, tally = await self._compared(lanes, place, part, state, logs)
        if verdict.problem:
            return state, verdict.problem
        is_clean = verdict.verdict.is_intact or verdict.verdict is Verdict.LATE
        if verdict.expired:
            is_clean &= not await self._note_deletions(lanes, part, logs, tally, place)
        state = self._with_rows(lanes, state, verdict, tally, part)
        mark.resume(mark.through_ms, is_stopped=state.is_stopped)
        mark.compared(part.end, is_clean=is_clean)
        target_next = state.target_next
        if progress.offset_map:  # otherwise the log may contain older records
            target_next = max(verdict.target_range[1], target_next or 0)
        state = replace(state, position=part.end, target_next=target_next, lane=history)
        return replace(state, through_ms=mark.through_ms, is_stopped=mark.is_stopped), ""

    async def _compared(
        self, lanes: AuditedLanes, place: TopicPartition, part: AuditSlice, state: LaneAudit, logs: LaneLogs
    ) -> tuple[PartitionVerdict, WindowTally]:
        tally = WindowTally(self._options.window_ms, self._context.clock.now_ms())
        job, ranges = self._job(lanes, place, part, state, tally), (logs.source, logs.target)
        return await audit_partition(self._context, job, place, logs.copy, logs=ranges), tally

    def _with_rows(
        self,
        lanes: AuditedLanes,
        state: LaneAudit,
        verdict: PartitionVerdict,
        tally: WindowTally,
        part: AuditSlice,
    ) -> LaneAudit:
        """Queue the audit rows of an audited slice. Return the state with the differences in this slice."""
        begins, ends = (part.start, verdict.target_range[0]), (part.end, verdict.target_range[1])
        audit = AuditMode.FULL if part.reads else AuditMode.COUNTS
        for start_ms, counts in sorted(tally.windows.items()):
            state = state.with_window(start_ms, counts, may_repeat=lanes.may_repeat)
            if any(counts.numbers):
                state, window = state.with_counts(start_ms, counts, begins)
                self._queue(lanes, verdict.partition, state, window, ends, audit)
        return state

    def _queue(
        self,
        lanes: AuditedLanes,
        place: TopicPartition,
        state: LaneAudit,
        window: OpenWindow,
        ends: tuple[int, int],
        audit: AuditMode,
    ) -> None:
        """Queue the audit row of one event-time window."""
        options = self._options
        if options.rows_topic:
            origin = AuditOrigin(state.row_ms, lanes.name, options.instance, audit.value, options.window_ms)
            late_ms, late = state.late or (-1, 0)
            late = late if late_ms == window.start_ms else 0
            self._pending.append(window_row(origin, place, window, ends, late))

    async def _with_late(
        self, lanes: AuditedLanes, key: LaneKey, state: LaneAudit, logs: LaneLogs
    ) -> LaneAudit:
        """Return the state of a lane with its overdue records counted. Queues rows whose counts change."""
        late = await self._late(lanes, key, logs)
        before = state.late
        if late == before:
            return state
        state = replace(state, late=late)
        for start_ms in sorted({each[0] for each in (before, late) if each is not None}):
            ends = state.position, state.target_next or 0
            state, window = state.with_counts(start_ms, WindowCounts(), ends)
            if not window.is_part:
                audit = AuditMode.COUNTS if lanes.mode is AuditMode.COUNTS else AuditMode.FULL
                self._queue(lanes, key.partition, state, window, ends, audit)
        return state

    async def _late(self, lanes: AuditedLanes, key: LaneKey, logs: LaneLogs) -> tuple[int, int] | None:
        """Return the oldest window with overdue records: its start (epoch ms), and their number in it.

        A record is overdue if it was not copied within the configured lateness. Returns None without overdue
        records.
        """
        progress, place = logs.copy.progress, key.partition
        before_ms = self._context.clock.now_ms() - self._lateness_ms(lanes)
        due = min(self._marks[key].end_at(before_ms), logs.source[1])
        start = max(progress.next_offset, logs.source[0]) if progress is not None else due
        if start >= due or due >= NO_END:
            return None
        first = await self._first_window(lanes, place, start, due)
        if first is None:
            return None
        return first.start_ms, (min(due, first.edge) if first.edge > start else due) - start

    def _lateness_ms(self, lanes: AuditedLanes) -> int:
        return self._options.lateness_ms if lanes.lateness_ms is None else lanes.lateness_ms

    def _job(
        self,
        lanes: AuditedLanes,
        place: TopicPartition,
        part: AuditSlice,
        state: LaneAudit,
        tally: WindowTally,
    ) -> VerifyJob:
        counts = CountRules(part.timestamp, lanes.has_markers or lanes.job.is_shared, lanes.may_repeat)
        return replace(
            lanes.job,
            ranges={place: (part.start, NO_END if part.is_last else part.end)},
            resumes={} if state.target_next is None else {place: state.target_next},
            counts=None if part.reads else counts,
            windows=tally,
            pace=self._rest,
        )

    async def _slice(
        self, lanes: AuditedLanes, key: LaneKey, start: int, end: int, window: tuple[int, int] | None
    ) -> AuditSlice:
        """Return the next slice to audit, which ends before the first record of the next window."""
        now_ms, place = self._context.clock.now_ms(), key.partition
        if lanes.mode is AuditMode.FULL or start >= end:
            upto = min(end, start + _MOST_OFFSETS)
            return AuditSlice(start, upto, lanes.mode is AuditMode.FULL, now_ms, upto >= end)
        if window is None or window[1] <= start or key not in self._windows:
            found = await self._first_batch(lanes, key, start, end)
            if found is None:
                return AuditSlice(start, end, False, now_ms, True)
            edge, timestamp = found
        else:
            timestamp, edge = window
            self._windows[key] = timestamp
        upto = min(edge, end)
        reads = lanes.mode is AuditMode.SAMPLED
        reads = reads and is_sampled(lanes.name, place, timestamp - timestamp % self._options.window_ms)
        upto = min(upto, start + _MOST_OFFSETS) if reads else upto
        return AuditSlice(start, upto, reads, timestamp, upto >= end)

    async def _first_batch(
        self, lanes: AuditedLanes, key: LaneKey, start: int, end: int
    ) -> tuple[int, int] | None:
        """Return the end offset and the start time of the window that contains the first record in [start,
        end). Returns None if the range has no record."""
        self._windows.pop(key, None)
        first = await self._first_window(lanes, key.partition, start, end)
        if first is None:
            return None
        edge = min(first.edge, end)
        if edge > start:
            self._windows[key] = first.start_ms
        return max(edge, first.batch_end), first.start_ms

    async def _first_window(
        self, lanes: AuditedLanes, place: TopicPartition, start: int, end: int
    ) -> LogWindow | None:
        """Return the window that contains the first record in [start, end), or None if there is no record."""
        source = self._context.cluster(lanes.job.source)
        log = LogRange(source, place, start, end, lanes.job.committed, pace=self._rest)
        return await first_window(log, self._options.window_ms, self._context.clock.now_ms())

    async def _note_deletions(
        self, lanes: AuditedLanes, part: AuditSlice, logs: LaneLogs, tally: WindowTally, place: TopicPartition
    ) -> bool:
        """Count copies that the destination deleted before their retention time. Return whether there are
        any."""
        job, progress, now_ms = lanes.job, logs.copy.progress, self._context.clock.now_ms()
        target, topic = self._context.cluster(job.destination), job.naming.destination(place.topic)
        described = await target.patiently(lambda: target.ask(describe_each([topic])))
        settings = (
            {key: setting.value for key, setting in described[topic].settings.items()} if described else {}
        )
        retention = retention_of(settings)
        if retention is None or progress is None:
            return False
        young_from, youngest_ms = 0, retention.youngest_ms(now_ms)
        if youngest_ms is not None:
            source = self._context.cluster(job.source)
            found = (await source.offsets({place: max(youngest_ms, 0)}))[place]
            young_from = NO_END if found.error or found.offset < 0 else found.offset
        wanted = part.start, part.end
        first, number = deleted_copies(progress.offset_map, wanted, logs.target[0], young_from)
        if number:
            tally.note(Finding(Verdict.MISSING, first, -1, part.timestamp, "deleted before its retention"))
            tally.count(Verdict.MISSING.value, part.timestamp, number - 1)
        return bool(number)

    def _report(
        self, lanes: AuditedLanes, key: LaneKey, logs: LaneLogs | None, problem: str
    ) -> LaneAuditReport:
        """Return the audit report of a lane. `logs`: None if the lane has not changed."""
        state = self._states.get(key, LaneAudit())
        progress = None if logs is None else logs.copy.progress
        through_ms = None if state.through_ms is None else state.through_ms - self._lateness_ms(lanes)
        waiting = max(progress.next_offset - state.position, 0) if progress is not None else 0
        late = state.late[1] if state.late is not None else 0
        topic = self._context.cluster(lanes.job.source).topics.get(key.partition.topic)
        count = 0 if topic is None else len(topic.leaders)
        return LaneAuditReport(through_ms, waiting, late, state.faults, state.more_faults, problem, count)

    async def _send(self) -> None:
        """Write the queued audit rows, and wait until the brokers have stored them.

        Raises Unreachable, NotAuthorized.
        """
        if self._pending:
            cluster = self._context.cluster(self._options.rows_cluster)
            await write_rows(cluster, self._options.rows_topic, self._pending)
            self._pending.clear()

    async def _rest(self, read_bytes: int) -> None:
        """Pause after a fetch, so that the audit stays within its limits."""
        now, busy = self._context.loop.now(), time.thread_time()
        before, busy_before = self._rested
        rate = self._options.bytes_per_second
        await self._context.loop.sleep(rest_seconds(read_bytes, rate, now - before, busy - busy_before))
        self._rested = self._context.loop.now(), time.thread_time()


def is_sampled(name: str, place: TopicPartition, window_ms: int) -> bool:
    """Return whether the mode `sampled` compares the records of this window.

    Deterministic, so all instances select the same windows.
    """
    seed = zlib.crc32(f"{name}/{place.topic}/{place.partition}/{window_ms}".encode())
    return seed < SAMPLED_SHARE * 2**32
