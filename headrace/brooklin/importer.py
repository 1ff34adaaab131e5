"""Reads the definitions of a Brooklin cluster from ZooKeeper, and creates the datastreams in Headrace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from headrace.brooklin.verdicts import ImportFinding, ImportVerdict, ListTopics, plan_import
from headrace.clusters.directory import ClusterDirectory
from headrace.coordination.client import connected, viewed, zookeeper_client
from headrace.placement.fleet_planners import FleetPlannerFactory
from headrace.settings import HeadraceSettings
from mirror.adapters.system_clock import SystemClock
from mirror.control.admission import Admission
from mirror.control.commands import CreateDatastream
from mirror.control.handlers import Control, ControlStores
from mirror.coordination.brooklin import BrooklinCluster, read_brooklin
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.plan_store import PlanStore
from mirror.coordination.stores.requests import RequestQueue
from mirror.coordination.stores.root import check_root, ensure_root
from mirror.errors import InvalidRequest, NotFound, Unreachable
from mirror.instance.discovery.route_gate import RouteGate
from mirror.model.datastreams.datastream import DatastreamStatus
from mirror.model.identifiers import ClusterRef
from mirror.ports import NodeStore
from mirror.settings import ZooKeeperSettings

_WHO: Final = "headrace import-brooklin"


@dataclass(frozen=True)
class TakeOver:
    """Result of an import from Brooklin. `live`: hosts that run Brooklin. `applied`: whether datastreams were
    created."""

    cluster: str
    live: tuple[str, ...]
    findings: tuple[ImportFinding, ...]
    applied: bool


@dataclass(frozen=True)
class ImportOptions:
    """Options of `headrace import-brooklin`; see its `--help`."""

    hashed_groups: bool = False
    owner: str = ""
    paused: bool = False
    apply: bool = False


def take_over(settings: HeadraceSettings, there: ZooKeeperSettings, options: ImportOptions) -> TakeOver:
    """Decide how to import each datastream of Brooklin. With the option `apply`, also create the datastreams.

    `there`: ZooKeeper and root path of the Brooklin cluster.

    Raises InvalidRequest before any write if Brooklin and Headrace would copy at the same time.
    """
    found = _read(there, options.hashed_groups)
    directory, clock = ClusterDirectory(settings.clusters), SystemClock()
    with (connected if options.apply else viewed)(settings, _WHO) as session:
        definitions = DefinitionStore(session)
        check_root(session)
        known = definitions.all()
        here = ListTopics(
            cluster_of_address=directory.of_address,
            default_destination=ClusterRef(settings.mirror.destination_cluster),
            present={stored.datastream.name: stored.datastream for stored in known.readable},
            damaged={definition.name: definition.problem for definition in known.damaged},
            tls=directory.tls,
            connectors=frozenset(settings.api.connector_names),
            transports=frozenset(settings.api.transport_provider_names),
            owner=options.owner,
            paused=options.paused,
            now_ms=clock.now_ms(),
        )
        gate = FleetPlannerFactory.of(settings, session).gate(PlanStore(session, writer="import"))
        admission = directory.admission(settings.mirror.definitions, knows_callers=settings.api.knows_callers)
        findings = _admitted(plan_import(found, here), here, admission, gate)
        if options.apply:
            _check_alone(found, findings)
            ensure_root(session)
            membership, requests = Membership(session), RequestQueue(session)
            stores = ControlStores(definitions, requests, membership, EventLog(session))
            control = Control.build(stores, admission, clock, gate)
            findings = tuple(_applied(finding, control) for finding in findings)
    return TakeOver(there.root, found.live, findings, options.apply)


def _admitted(
    findings: tuple[ImportFinding, ...], here: ListTopics, admission: Admission, gate: RouteGate
) -> tuple[ImportFinding, ...]:
    """Change the verdict on datastreams that Headrace would reject to `impossible`.

    Rejected datastreams use forbidden clusters, would copy in a loop, or write to topics of another
    datastream.
    """
    others, refused = list(here.present.values()), {}
    for finding in findings:
        imported = finding.datastream
        if finding.verdict is ImportVerdict.CREATE and imported is not None:
            try:
                admission.check(imported, None, gate.same_as)
                gate.check(imported, others)
            except InvalidRequest as error:
                notes = (str(error), *finding.notes)
                refused[finding.name] = replace(finding, verdict=ImportVerdict.IMPOSSIBLE, notes=notes)
            else:
                others.append(imported)
    return tuple(refused.get(finding.name, finding) for finding in findings)


def _read(there: ZooKeeperSettings, hashed_groups: bool) -> BrooklinCluster:
    try:
        with _session(there) as session:
            return read_brooklin(session, there.root.rpartition("/")[2] if hashed_groups else "")
    except NotFound as error:
        raise NotFound(
            f"no Brooklin datastream in {there.root} at {there.servers}", advice=error.advice
        ) from error
    except Unreachable as error:
        raise Unreachable(error.message, advice="check the address of Brooklin's ZooKeeper") from error


def _applied(finding: ImportFinding, control: Control) -> ImportFinding:
    """Create the datastream in Headrace. If Headrace rejects it, add the reason to the finding."""
    if finding.verdict is not ImportVerdict.CREATE or finding.datastream is None:
        return finding
    try:
        creation = CreateDatastream(finding.datastream, finding.status, is_taken_over=True, requested_by=_WHO)
        control.creations.create(creation)
    except InvalidRequest as error:
        return replace(finding, verdict=ImportVerdict.IMPOSSIBLE, notes=(str(error), *finding.notes))
    return finding


def _check_alone(found: BrooklinCluster, findings: tuple[ImportFinding, ...]) -> None:
    runs = [
        finding.name
        for finding in findings
        if finding.verdict is ImportVerdict.CREATE and finding.status is DatastreamStatus.INITIALIZING
    ]
    if found.live and runs:
        raise InvalidRequest(
            f"{runs[0]} would be copied twice: Brooklin is running on {', '.join(found.live)}",
            advice="stop Brooklin or pause its datastreams; or import with --paused, and resume the "
            "datastreams in Headrace when Brooklin has stopped",
        )


@contextmanager
def _session(settings: ZooKeeperSettings) -> Iterator[NodeStore]:
    session = zookeeper_client(settings)
    session.start()
    try:
        yield session
    finally:
        session.stop()
