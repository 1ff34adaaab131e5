"""One run: create and write datastreams, carry out the schedule, then check every record."""

from __future__ import annotations

import faulthandler
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.chaos.service.acts import Act, Outcome, acts_on
from tests.chaos.service.arrivals import Arrivals, Place
from tests.chaos.service.attacks import ATTACKS, OBJECTIVE_SECONDS, Attacker
from tests.chaos.service.audits import AuditWatch
from tests.chaos.service.comparison import Findings, compare, repeated
from tests.chaos.service.operator_acts import Operator
from tests.chaos.service.reader import Contents, read_topic
from tests.chaos.service.schedule import Fault, Kind, Resource, SiteShape, make_schedule
from tests.chaos.service.site import Site
from tests.chaos.service.tenants import Tenant, make_cast
from tests.chaos.service.traffic import BACKDATED_SECONDS, Writer
from tests.chaos.service.verdict import Verdict
from tests.coordination_stores import KafkaStore

_SHOWN: Final = 5
_LATELY_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Order:
    """Parameters of a run. `length`: seconds; `rate`: records per second and partition.

    `patience`: maximum seconds until records flow again after the last fault, and then until all have
    arrived. `attack`: seconds of each attack, carried out before the schedule while nothing else fails.
    """

    seed: int
    length: float
    mean_pause: float
    rate: float
    patience: float
    attack: float


@dataclass(frozen=True)
class _Done:
    fault: Fault
    began: float
    ended: float
    outcome: Outcome


class Unfinished(Exception):
    """A fault cannot be undone or a writer cannot finish, so nothing can be compared."""


class Run:
    """Run on a started site; `report` receives a line for each fault."""

    def __init__(self, site: Site, arrivals: Arrivals, order: Order, report: Callable[[str], None]) -> None:
        self._site, self._arrivals, self._order, self._report = site, arrivals, order, report
        self._cast = make_cast(f"seed{order.seed}")
        self._writers = {
            tenant.name: Writer(
                site.source.address, tenant.topic, tenant.partitions, tenant.style, order.rate
            )
            for tenant in self._cast.tenants
        }
        self._operator = Operator(site, self._cast, self._writers)
        attacker = Attacker(site, self._operator, f"seed{order.seed}")
        self._acts: Mapping[Kind, Act] = {**acts_on(site), **self._operator.acts(), **attacker.acts()}
        self._done: list[_Done] = []
        self._violations: list[str] = []
        self._audits = AuditWatch(site, self._cast.tenants)

    def carry_out(self) -> Verdict:
        """Run everything and return the verdict; the writers always end."""
        try:
            return self._carry_out()
        finally:
            self._audits.stop()
            for writer in self._writers.values():
                writer.give_up()

    def _carry_out(self) -> Verdict:
        self._begin()
        for kind in ATTACKS:
            self._attack(kind)
        self._break_things()
        flowing = self._wait(self._not_flowing_since(time.monotonic()), "no new record arrives")
        ended = [writer.finish(self._order.patience) for writer in self._writers.values()]
        self._require_over(
            [writer.topic for writer, over in zip(self._writers.values(), ended, strict=True) if not over]
        )
        truth = {tenant.name: self._truth(tenant) for tenant in self._cast.tenants}
        complete = self._wait(lambda: self._incomplete(truth), "records are missing")
        self._wait(self._unsettled, "the service is not settled")
        self._wait(self._audits.behind, "the audits have not caught up")
        self._audits.finish()
        verdict = Verdict(self._order.seed, self._order.length, self._counts(), self._silences())
        verdict.flowing_after, verdict.complete_after = flowing, complete
        verdict.violations += [*self._violations, *self._site.ended]
        self._site.ended.clear()
        self._compare(truth, verdict)
        stable = [tenant for tenant in self._cast.tenants if tenant is not self._cast.reborn]
        verdict.violations += self._audits.violations(stable)
        verdict.audit_lag, verdict.statements = self._audits.longest_lag, len(self._audits.statements)
        for tenant in self._cast.tenants:
            self._operator.delete(tenant.name)
        return verdict

    def _begin(self) -> None:
        self._arrivals.watch(frozenset(tenant.copy for tenant in self._cast.tenants))
        for writer in self._writers.values():
            writer.start()
        for tenant in self._cast.tenants:
            self._operator.create(tenant)
        self._audits.start()
        self._wait(self._not_flowing_since(0.0), "no record arrives before the first fault")
        seconds = self._wait(self._late, "records are late before the first fault")
        age, place = self._arrivals.oldest(0.0, time.monotonic())
        self._report(
            f"          the backlog of the start was {age:.1f} s old at {place}, gone in {seconds:.1f} s"
        )

    def _attack(self, kind: Kind) -> None:
        """Carry out an attack and check that the records of all other tenants meet their latency objective.

        No record is late when the attack starts, and the check covers the time until none is late again.
        """
        began = time.monotonic()
        self._do(Fault(0.0, self._order.attack, kind, 0.0, at_leader=False), threading.Lock())
        self._wait(self._not_flowing_since(time.monotonic()), f"no new record arrives after: {kind}")
        self._wait(self._late, f"records are late after: {kind}")
        age, place = self._arrivals.oldest(began, time.monotonic())
        self._report(f"          the oldest record of another tenant was {age:.1f} s old, of {place}")
        if age > OBJECTIVE_SECONDS:
            self._violations.append(f"{kind}: a record of {place} arrived {age:.1f} s after it was written")

    def _break_things(self) -> None:
        """Carry out the schedule by the monotonic clock, with a thread for each fault.

        Faults of the same server or datastream run one after another: one that takes longer delays the next.
        """
        order = self._order
        site = self._site
        has_log = isinstance(site.store, KafkaStore)
        shape = SiteShape(len(site.instances), site.pinot is not None, has_log, order.mean_pause)
        locks: dict[Resource, threading.Lock] = {
            one: threading.Lock() for one in Resource if one is not Resource.INSTANCE
        }
        began = time.monotonic()
        threads = []
        for fault in make_schedule(order.seed, order.length, shape):
            self._site.wait(max(0.0, began + fault.at - time.monotonic()))
            lock = locks.get(fault.resource, threading.Lock())
            thread = threading.Thread(target=self._do, args=(fault, lock), name=str(fault.kind))
            thread.start()
            threads.append(thread)
        until = time.monotonic() + order.patience
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._require_over([thread.name for thread in threads if thread.is_alive()])

    def _require_over(self, under_way: list[str]) -> None:
        """Raise StillUnderWay if faults are still running, after dumping the stacks of all threads."""
        if under_way:
            file = self._site.folder / "threads.txt"
            with file.open("w") as stream:
                faulthandler.dump_traceback(stream)
            raise Unfinished(f"after {self._order.patience:.0f} s: {', '.join(under_way)}; see {file}")

    def _do(self, fault: Fault, lock: threading.Lock) -> None:
        with lock:
            began = time.monotonic()
            self._report(str(fault))
            try:
                outcome = self._acts[fault.kind](fault)
            except Exception as error:  # noqa: BLE001 - one more finding, unless the run is given up
                if not self._site.given_up.is_set():
                    self._report(traceback.format_exc())
                    self._violations.append(f"{fault.kind} could not be carried out: {error!r}")
                return
        self._done.append(_Done(fault, began, time.monotonic(), outcome))
        self._report(f"          over: {fault.kind}, {outcome.victim}")

    def _places(self) -> list[tuple[Tenant, Place]]:
        return [
            (tenant, (tenant.copy, number))
            for tenant in self._cast.tenants
            for number in range(self._writers[tenant.name].partitions)
        ]

    def _not_flowing_since(self, moment: float) -> Callable[[], list[str]]:
        """Return a function that lists the partitions without a record since that moment."""
        return lambda: [
            f"{place[0]}-{place[1]}" for _, place in self._places() if self._arrivals.newest(place) <= moment
        ]

    def _late(self) -> list[str]:
        """Return the partitions whose latest arrivals are old or missing, because they are catching up."""
        now, found = time.monotonic(), []
        for _, place in self._places():
            age = self._arrivals.oldest_of(place, now - _LATELY_SECONDS, now)
            if age is None or age > BACKDATED_SECONDS + _LATELY_SECONDS:
                found.append(f"{place[0]}-{place[1]}")
        return found

    def _wait(self, lacking: Callable[[], list[str]], what: str) -> float:
        """Wait until `lacking` returns nothing; return the seconds.

        Anything missing at the timeout is a violation.
        """
        began = time.monotonic()
        while missing := lacking():
            if self._arrivals.failure is not None:
                raise self._arrivals.failure
            if time.monotonic() - began > self._order.patience:
                more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
                self._violations.append(
                    f"{what} after {self._order.patience:.0f} s: {'; '.join(missing[:_SHOWN])}{more}"
                )
                break
            self._site.wait(0.2)
        return time.monotonic() - began

    def _truth(self, tenant: Tenant) -> list[Contents]:
        """Return the contents of each incarnation of the topic; the last is current."""
        writer = self._writers[tenant.name]
        now = read_topic(self._site.source.address, tenant.topic, writer.partitions, self._site.given_up)
        return [*writer.lives, now]

    def _incomplete(self, truth: Mapping[str, list[Contents]]) -> list[str]:
        found = []
        for tenant, place in self._places():
            missing = set(truth[tenant.name][-1].get(place[1], ())) - self._arrivals.seen(place)
            if missing:
                found.append(f"{len(missing)} of {place[0]}-{place[1]}")
        return found

    def _unsettled(self) -> list[str]:
        """Return every deviation from the expected state of an undisturbed service."""
        wanted = {(tenant.topic, place[1]) for tenant, place in self._places()}
        lacking = [f"{name} is not well" for name, one in self._site.each("/v1/health").items() if not one]
        planned: Counter[str] = Counter()
        homes = set()
        plan: dict[str, Any] = self._site.ask(lambda rest: rest.get("/v1/plan"))
        for task in plan["tasks"]:
            planned.update(task["partitions"])
            homes |= {task["instance"]} if task["partitions"] else set()
        names = {f"{topic}-{number}" for topic, number in wanted}
        lacking += [f"{name} is planned {planned[name]} times" for name in names if planned[name] != 1]
        lacking += [f"{name} has no task" for name in set(self._site.instances) - homes]
        copied: Counter[str] = Counter()
        for name, answer in self._site.each("/v1/lanes").items():
            for lane in answer["lanes"] if answer is not None else ():
                if lane["instance"] != name:
                    continue  # that instance is queried too
                if lane["worker"] is None and lane["phase"] != "paused":
                    continue  # of a hostile definition, which may not run; `names` are counted below
                copied[lane["partition"]] += lane["phase"] == "copying"
                if lane["phase"] != "copying":
                    lacking.append(f"{lane['partition']} is {lane['phase']} on {name}: {lane['reason']}")
        lacking += [f"{name} is copied {copied[name]} times" for name in names if copied[name] != 1]
        return lacking

    def _compare(self, truth: Mapping[str, list[Contents]], verdict: Verdict) -> None:
        for tenant in self._cast.tenants:
            partitions = self._writers[tenant.name].partitions
            verdict.add(
                tenant.name, self._findings(tenant, truth[tenant.name], partitions), tenant.may_repeat
            )
            verdict.violations += self._ledgers(tenant)
        for guest, writer in self._operator.guests:
            if writer.lives:
                verdict.add(guest.name, self._findings(guest, [*writer.lives, {}], writer.partitions), False)

    def _findings(self, tenant: Tenant, lives: list[Contents], partitions: int) -> Findings:
        """Read both sides again, to their ends, and compare them."""
        stop = self._site.given_up
        copy = read_topic(self._site.destination.address, tenant.copy, partitions, stop)
        every = (
            read_topic(self._site.source.address, tenant.topic, partitions, stop, committed=False)
            if tenant.style.is_transactional
            else {}
        )
        nothing: list[Hashable] = []
        found = Findings()
        for number in range(partitions):
            logs = [life.get(number, nothing) for life in lives]
            aborted = set(every.get(number, nothing)) - set(logs[-1])
            found += compare(logs, copy.get(number, nothing), aborted)
            if not tenant.may_repeat and (stretches := repeated(copy.get(number, nothing))):
                self._report(f"{tenant.copy}-{number}: first, again, length: {stretches}")
        return found

    def _ledgers(self, tenant: Tenant) -> list[str]:
        path = f"/v1/datastreams/{tenant.name}/progress"
        lanes: list[dict[str, Any]] = self._site.ask(lambda rest: rest.get(path))
        return [
            f"the ledger of {lane['topic']}-{lane['partition']} does not add up: {lane['offsets']}"
            for lane in lanes
            if not lane["is_balanced"]
        ]

    def _counts(self) -> Mapping[Kind, int]:
        return Counter(done.fault.kind for done in self._done)

    def _silences(self) -> Mapping[Kind, tuple[float, str]]:
        found: dict[Kind, tuple[float, str]] = {}
        for done in self._done:
            quiet = [
                other.outcome.silenced
                for other in self._done
                if other is not done and other.began < done.ended and done.began < other.ended
            ]
            longest = self._arrivals.longest_silence(
                done.began, done.ended, but=frozenset[Place]().union(*quiet)
            )
            found[done.fault.kind] = max(found.get(done.fault.kind, (0.0, "")), longest)
        return found
