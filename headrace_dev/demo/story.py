"""Parts of the demonstration, in order. Each part reports only results that it has measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.console.client import RestClient, unless_it_may_pass
from headrace_dev.demo.claims import DemoFindings
from headrace_dev.demo.processes import DemoProcesses
from headrace_dev.demo.scenario import (
    DATASTREAM,
    HOT,
    INSTANCES,
    OBJECTIVE_MS,
    SHIFTED,
    TASK_CAPACITY,
    TOPICS,
    USABLE,
    shifted_rates,
    usual_rates,
)
from headrace_dev.demo.watch import Watch, moves_of, plan_of, task_loads
from mirror.errors import HeadraceError
from mirror.wording import counted
from stack.process.wait import wait_until
from stack.traffic.arrivals import Arrivals

Say = Callable[[str], None]
_TROUBLES: Final = ("missing", "duplicates", "foreign")
_PATIENCE_SECONDS: Final = 300
_SAY_SECONDS: Final = 15.0


class DemoStory:
    """Runs the parts of the demonstration on the given processes and fills in the findings."""

    def __init__(
        self, processes: DemoProcesses, watch: Watch, findings: DemoFindings, arrivals: Arrivals, echo: Say
    ) -> None:
        self._processes = processes
        self._watch = watch
        self._findings = findings
        self._arrivals = arrivals
        self._echo = echo
        self._client: RestClient = processes.client(INSTANCES[0])

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def create_datastream(self) -> None:
        """Create the datastream over REST. The first plan is by count, because the sampler starts later and
        loads are unknown. The monitor must not request a rebalance yet."""
        self._let_the_monitor_act(False, "placement by count is shown first")
        self._client.post(
            "/v1/datastreams",
            {
                "name": DATASTREAM,
                "source": {"cluster": "source", "topics": "|".join(TOPICS)},
                "destination": {"cluster": "destination", "name": "mirror.*"},
                "limits": {"min_tasks": 2},
                "objective": {"milliseconds": OBJECTIVE_MS},
                "metadata": {"owner": "demo"},
            },
        )
        plan = self._until("the datastream is planned", self._planned)
        self._arrivals.start()
        self._mark(f"datastream created: {counted(len(plan['tasks']), 'task')}, placed by count")

    def _let_the_monitor_act(self, is_on: bool, reason: str) -> None:
        body = {"acting": is_on, "reason": reason, "requested_by": "demo"}
        self._client.patch("/v1/monitor", body, "*")
        self._echo(f"the monitor may {'act' if is_on else 'not act yet'}: {reason}")

    def by_count(self) -> None:
        """Measure the load of each task while partitions are placed by count."""
        self._processes.start_sampler()
        self._until("Pinot has load samples", self._watch.sampled)
        self._pause(9)
        loads = self._recent_loads()
        self._findings.task_loads.append(task_loads("before: placed by count", plan_of(self._client), loads))
        self._show_loads()
        self._find_hot_partitions()

    def by_load(self) -> None:
        """Rebalance fully by load, after a dry run."""
        body: dict[str, Any] = {"datastream": DATASTREAM, "full": True, "reason": "first loads are known"}
        preview = self._client.post("/v1/rebalance", body | {"dry_run": True})
        self._echo(f"dry run: {preview['sentence']}")
        before = plan_of(self._client)["epoch"]
        self._client.post("/v1/rebalance", body)
        plan = self._until("the new plan is in force", lambda: self._newer_plan(before))
        self._mark(f"rebalanced by load: {counted(len(plan['tasks']), 'task')}")
        loads = self._recent_loads()
        found = task_loads("after: placed by load", plan, loads)
        self._findings.task_loads.append(found)
        self._show_loads()
        first = self._findings.task_loads[0]
        self._findings.claim(
            "Placement by load is more even than by count",
            found.largest_over_mean < first.largest_over_mean,
            f"max/mean {first.largest_over_mean:.2f} by count, {found.largest_over_mean:.2f} by load",
        )
        needed = -(-int(sum(loads.values())) // USABLE)
        self._findings.claim(
            "The number of tasks matches the capacity",
            plan_tasks_fit(found.loads) and needed <= len(plan["tasks"]) <= needed + 1,
            f"{sum(loads.values()):,.0f} B/s at {USABLE:,} usable B/s per task require {needed}; "
            f"{counted(len(plan['tasks']), 'task')}, the fullest carries "
            f"{max(found.loads.values()):,.0f} B/s",
        )

    def settled(self) -> None:
        """Measure the latency in normal operation after the rebalance."""
        self._until("the backlog is gone", self._is_quiet)
        since = self._watch.now_ms()
        self._let_the_monitor_act(True, "everything is placed by load")
        self._pause(8)
        phase = self._watch.latency("before the shift", since, self._watch.now_ms())
        self._findings.latency.append(phase)
        self._findings.claim(
            "The latency objective is met before the shift",
            0 < phase.p99_ms <= OBJECTIVE_MS,
            f"p50 {phase.p50_ms:.0f} ms, p99 {phase.p99_ms:.0f} ms over {counted(phase.records, 'record')}",
        )

    def shift(self) -> None:
        """Shift traffic so that a task is overloaded. The monitor must detect this and request a
        rebalance."""
        before = plan_of(self._client)["epoch"]
        since = self._watch.now_ms()
        self._processes.set_traffic(shifted_rates())
        self._mark(f"traffic shift: {', '.join(f'{t}-{p}' for t, p in SHIFTED)} become busy")
        plan = self._until("the monitor has reacted to the breach", lambda: self._newer_plan(before))
        answered = self._watch.now_ms()
        self._mark(f"rebalanced after the breach: {counted(len(plan['tasks']), 'task')}")
        during = self._watch.latency("during the breach", since, answered)
        self._findings.latency.append(during)
        self._findings.moves = moves_of(self._client, plan["epoch"])
        self._findings.claim(
            "The shift breached the latency objective and the monitor requested the rebalance",
            "latency breach" in plan["reason"],
            f"epoch {plan['epoch']} after {(answered - since) / 1000:.0f} s: {plan['reason']}",
        )
        self._findings.claim(
            "The rebalance moved partitions, each for a stated reason",
            bool(self._findings.moves) and all(move["why"] for move in self._findings.moves),
            f"{counted(len(self._findings.moves), 'partition')} moved",
        )
        for move in self._findings.moves:
            self._echo(f"  {move['partition']}: {move['from']} -> {move['to']}: {move['why']}")
        self._recover(since)

    def kill(self) -> None:
        """Kill an instance. The other instance must take over its partitions."""
        victim = INSTANCES[-1]
        plan = plan_of(self._client)
        partitions = self._partitions_of(plan, victim)
        busy = [key for key in partitions if self._arrivals.last_arrival(key) > 0]
        self._arrivals.mark()
        self._processes.kill_instance(victim)
        killed = self._arrivals.mark()
        self._mark(f"{victim} killed with {counted(len(partitions), 'partition')}")
        self._until(
            "all its partitions are copied again",
            lambda: all(self._arrivals.last_arrival(key) > killed + 0.5 for key in busy),
        )
        silent = self._arrivals.longest_silence(busy)
        longest = max(silent.values(), default=0.0)
        self._mark("its partitions are copied again")
        self._findings.claim(
            "After an instance is killed, its partitions are copied again within 15 s",
            bool(busy) and longest < 15,
            f"{counted(len(busy), 'busy partition')} of {victim} were silent for at most {longest:.1f} s",
        )

    def audit(self) -> None:
        """Check that every record written is at the destination."""
        written = self._processes.stop_traffic()
        self._mark(f"traffic stopped after {counted(written, 'record', form=',')}")
        self._until("every record is accounted for", lambda: self._accounted_for() >= written)
        rows = json.loads(
            self._processes.run_command(
                "audit", DATASTREAM, "--at", self._processes.rest_address(INSTANCES[0]), "--json"
            )
        )
        self._findings.audit = rows
        total = {key: sum(row[key] for row in rows) for key in ("source_records", *_TROUBLES)}
        self._findings.claim(
            "No loss: every source record is at the destination",
            total["source_records"] == written and total["missing"] == total["foreign"] == 0,
            f"{written:,} written, {total['missing']} missing, {total['foreign']} foreign, "
            f"{total['duplicates']} duplicates (the restart compares the end of both logs)",
        )

    def _accounted_for(self) -> int:
        """Return the number of source offsets, from 0 on, that are stored as mirrored, filtered or otherwise
        classified."""
        lanes = self._client.get(f"/v1/datastreams/{DATASTREAM}/progress")
        return sum(int(lane["next_offset"]) for lane in lanes)

    def _recover(self, since: int) -> None:
        self._until("the latency is within the objective again", self._is_quiet)
        back = self._watch.now_ms()
        self._mark("latency within the objective again")
        self._pause(8)
        after = self._watch.latency("after the rebalance", back, self._watch.now_ms())
        self._findings.latency.append(after)
        during = self._findings.latency[-2]
        self._findings.claim(
            "The latency objective is met again after the rebalance",
            during.p99_ms > OBJECTIVE_MS >= after.p99_ms > 0,
            f"p99 {during.p99_ms:.0f} ms during the breach, {after.p99_ms:.0f} ms after it; "
            f"recovered {(back - since) / 1000:.0f} s after the shift",
        )

    def _find_hot_partitions(self) -> None:
        rows = self._watch.hot_partitions(12)
        self._findings.hot_rows = rows
        self._findings.hot_query = (
            f"headrace pinot query offending --param cluster=source "
            f"--param usable_bytes_per_second={USABLE} --last 12s"
        )
        found = {str(row["partition"]) for row in rows}
        wanted = {f"{topic}-{number}" for topic, number in HOT}
        self._findings.claim(
            "A Pinot query finds the hot partitions",
            found == wanted,
            f"found {', '.join(sorted(found)) or 'none'}; a task has {USABLE:,} of {TASK_CAPACITY:,} B/s",
        )

    def _recent_loads(self) -> dict[str, float]:
        """Return the loads as soon as Pinot has samples of the last seconds, so that no claim is based on
        unknown loads."""
        hot = [f"{topic}-{number}" for topic, number in HOT]

        def known() -> dict[str, float] | None:
            loads = self._watch.partition_loads(9)
            return loads if all(loads.get(name, 0.0) > 0 for name in hot) else None

        found: dict[str, float] = self._until("Pinot has the load of the last seconds", known)
        return found

    def _planned(self) -> Mapping[str, Any] | None:
        plan = plan_of(self._client)
        expected = sum(TOPICS.values())
        return plan if sum(len(task["partitions"]) for task in plan["tasks"]) == expected else None

    def _newer_plan(self, epoch: int) -> Mapping[str, Any] | None:
        plan = plan_of(self._client)
        return plan if plan["epoch"] > epoch else None

    def _is_quiet(self) -> bool:
        recent = self._watch.recent_latency(3)
        return recent.records > 0 and recent.p99_ms <= OBJECTIVE_MS / 2

    @staticmethod
    def _partitions_of(plan: Mapping[str, Any], instance: str) -> list[tuple[str, int]]:
        names = [
            name for task in plan["tasks"] if task["instance"] == instance for name in task["partitions"]
        ]
        pairs = (name.rpartition("-") for name in names)
        return [(f"mirror.{topic}", int(number)) for topic, _, number in pairs]

    def _until(self, goal: str, ask: Callable[[], Any]) -> Any:
        began = said = self._watch.seconds()

        def attempt() -> Any:
            nonlocal said
            self._processes.require_alive()
            self._note_latency()
            if (now := self._watch.seconds()) - said >= _SAY_SECONDS:
                said = now
                self._echo(f"waiting until {goal}, {now - began:.0f} s")
            return unless_it_may_pass(ask)()

        return wait_until(attempt, _PATIENCE_SECONDS, goal, interval_seconds=0.4)

    def _pause(self, seconds: float) -> None:
        end = self._watch.seconds() + seconds
        self._until("the time has passed", lambda: self._watch.seconds() >= end)

    def _note_latency(self) -> None:
        line = self._findings.latency_line
        at = self._watch.seconds()
        if line and at - line[-1][0] < 1.0:
            return
        try:
            recent = self._watch.recent_latency(3)
        except HeadraceError:
            return  # the table does not exist in Pinot yet
        if recent.records:
            line.append((at, recent.p50_ms, recent.p99_ms))

    def _mark(self, text: str) -> None:
        self._findings.marks.append((self._watch.seconds(), text))
        self._echo(text)

    def _show_loads(self) -> None:
        found = self._findings.task_loads[-1]
        self._echo(f"load per task, {found.title} (max/mean {found.largest_over_mean:.2f}):")
        for task, load in sorted(found.loads.items()):
            bar = "#" * round(load / USABLE * 30)
            self._echo(f"  {task:10} {load:>9,.0f} B/s {bar}")


def plan_tasks_fit(loads: Mapping[str, float]) -> bool:
    """Return whether every task is within its usable capacity, plus 5 % for fluctuations."""
    return all(load <= USABLE * 1.05 for load in loads.values())


def rates_for_start() -> dict[str, dict[str, float]]:
    """Return the rates of the traffic at the start."""
    return usual_rates()
