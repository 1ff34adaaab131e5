"""Runs the checks for all clusters, servers and files in the settings. A failed check does not stop the
others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any, Final

from headrace.clusters.certificates import certificates_of
from headrace.console.client import RestClient
from headrace.console.resources import instance_troubles
from headrace.coordination.client import store_cluster, zookeeper_client
from headrace.doctor.certificates import examined_certificates
from headrace.doctor.clocks import examined_clocks
from headrace.doctor.clusters import examined_cluster, same_clusters
from headrace.doctor.diagnosis import DoctorFinding, Grade, Subject, some_of
from headrace.doctor.ensemble import examined_servers
from headrace.doctor.host import examined_host, examined_settings, this_host
from headrace.doctor.plug_ins import examined_plug_ins
from headrace.doctor.store import examined_shared_store, examined_store
from headrace.doctor.topics import TopicPair, examined_own_topic, examined_pairs, is_there
from headrace.settings import HeadraceSettings, StoreKind
from mirror.adapters.kafka.loop_thread import LoopThread
from mirror.adapters.kafka.survey import ClusterSurvey
from mirror.adapters.kafka_store.survey import shared_store_facts
from mirror.adapters.settings import KafkaCluster
from mirror.adapters.system_clock import SystemClock
from mirror.errors import HeadraceError, NotAuthorized, NotFound, Unreachable
from mirror.model.topics import TopicNaming, TopicSelection
from mirror.protocol.control.rights import AclOperation
from mirror.wording import counted
from monitor.settings import MeasurementPlace

_ZOOKEEPER, _PINOT, _SERVICE = Subject("ZooKeeper"), Subject("Pinot"), Subject("service")
_CLIENT_ID: Final = "headrace-doctor"
_READ, _WRITE = AclOperation.READ, AclOperation.WRITE


class Examination:
    """Runs all checks of `headrace doctor`.

    `seconds`: timeout per cluster or server. `client`: client of the service, which lists its instances and
    datastreams.
    """

    def __init__(self, settings: HeadraceSettings, client: RestClient, seconds: float) -> None:
        self._settings = settings
        self._client = client
        self._seconds = seconds
        self._loop = LoopThread("doctor")
        self._identities: dict[str, str] = {}

    def run(self) -> Iterator[DoctorFinding]:
        """Run all checks, and yield each finding as soon as it is known."""
        settings = self._settings
        yield from examined_host(this_host())
        yield from examined_settings(settings)
        yield from examined_certificates(certificates_of(settings), SystemClock().now_ms())
        yield from self._store()
        yield from self._guarded("Pinot", self._pinot)
        datastreams: list[Mapping[str, Any]] = []
        yield from self._guarded("service", partial(self._service, datastreams), Grade.NOTE)
        for alias, cluster in settings.clusters.items():
            yield from self._guarded(f"cluster {alias}", partial(self._cluster, alias, cluster))
        yield from same_clusters(self._identities)
        for datastream in datastreams:
            yield from self._guarded(
                f"datastream {datastream['name']}", partial(self._datastream, datastream)
            )

    def _guarded(
        self, subject: str, examine: Callable[[], Iterable[DoctorFinding]], grade: Grade = Grade.PROBLEM
    ) -> Iterator[DoctorFinding]:
        try:
            yield from examine()
        except HeadraceError as error:
            yield Subject(subject).finding(grade, error.message, error.advice or _advice(error, subject))

    def _store(self) -> Iterator[DoctorFinding]:
        match self._settings.store:
            case StoreKind.ZOOKEEPER:
                yield from self._guarded("ZooKeeper", self._zookeeper)
                yield from self._guarded("ZooKeeper", self._zookeeper_servers)
            case StoreKind.KAFKA:
                yield from self._guarded("coordination store", self._shared_store)
            case StoreKind.EMBEDDED:
                yield from self._guarded("coordination store", partial(examined_store, self._settings))

    def _shared_store(self) -> Iterator[DoctorFinding]:
        settings = self._settings
        cluster = store_cluster(settings)
        facts = shared_store_facts(self._loop, cluster, settings.coordination, self._seconds)
        yield from examined_shared_store(settings, facts)

    def _zookeeper(self) -> Iterator[DoctorFinding]:
        least = min(self._seconds, self._settings.zookeeper.connect_timeout_seconds)
        zookeeper = zookeeper_client(
            self._settings.zookeeper.model_copy(update={"connect_timeout_seconds": least})
        )
        zookeeper.start()
        try:
            opened: tuple[str, ...] = ()
            if self._settings.zookeeper.security.is_private:
                with suppress(NotFound):  # the znodes do not exist yet
                    opened = zookeeper.open_nodes()
            took = zookeeper.session_timeout_seconds()
        finally:
            zookeeper.stop()
        wanted = self._settings.zookeeper.session_timeout_seconds
        if took < wanted:
            yield _ZOOKEEPER.warning(
                f"the server grants sessions of {took:.1f} s, the settings request {wanted:.1f} s",
                "raise maxSessionTimeout of the server, or lower zookeeper.session_timeout_seconds",
            )
        if opened:
            yield _ZOOKEEPER.warning(
                f"anyone may change {some_of(opened)}: created before zookeeper.security was set",
                "restrict access with setAcl -R (docs/zookeeper.md)",
            )
        yield _ZOOKEEPER.ok(f"reachable at {self._settings.zookeeper.servers}")

    def _zookeeper_servers(self) -> Iterator[DoctorFinding]:
        try:
            from mirror.adapters.zookeeper_survey import survey_servers
        except ModuleNotFoundError:  # `_zookeeper` reports it
            return
        yield from examined_servers(survey_servers(self._settings.zookeeper, self._seconds))

    def _pinot(self) -> Iterator[DoctorFinding]:
        from pinot.deployment.controller import PinotController

        if not self._wants_pinot():
            return
        once = self._settings.pinot.model_copy(update={"attempts": 1, "timeout_seconds": self._seconds})
        with closing(PinotController(once)) as controller:
            lacking = [table for table in _tables() if controller.table(table) is None]
        if lacking:
            yield _PINOT.problem(f"missing tables {some_of(lacking)}", "run headrace pinot apply")
        else:
            yield _PINOT.ok(f"reachable at {once.controller}, all tables exist")

    def _wants_pinot(self) -> bool:
        monitor = self._settings.monitor
        return self._settings.mirror.leader.load_provider == "pinot" or (
            monitor.enabled and monitor.measurements is MeasurementPlace.PINOT
        )

    def _service(self, datastreams: list[Mapping[str, Any]]) -> Iterator[DoctorFinding]:
        """Check the service, and append its undamaged definitions to `datastreams`."""
        instances = self._client.get("/v1/instances")
        found = self._client.get("/v1/datastreams")
        datastreams += [
            datastream for datastream in found if datastream["source"] and datastream["destination"]
        ]
        troubles = [
            f"{instance['name']}: {trouble}"
            for instance in instances
            for trouble in instance_troubles(instance)
        ]
        for trouble in troubles:
            yield _SERVICE.problem(trouble, "see docs/operate/watch.md")
        if not troubles:
            yield _SERVICE.ok(f"{counted(len(instances), 'instance is', 'instances are')} healthy")
        yield from examined_clocks(instances)
        yield from examined_plug_ins(instances, found)

    def _cluster(self, alias: str, settings: KafkaCluster) -> Iterator[DoctorFinding]:
        own = self._own_topics(alias)
        with self._survey(settings) as survey:
            facts = survey.describe(sorted(own))
        self._identities[alias] = facts.identity
        is_written = bool(own)
        yield from examined_cluster(alias, settings, facts, is_written=is_written)
        for name, needs in own.items():
            keeps_progress = name == self._settings.mirror.progress_topic
            yield from examined_own_topic(name, facts.topics.get(name), needs, keeps_progress=keeps_progress)

    def _own_topics(self, alias: str) -> dict[str, Sequence[AclOperation]]:
        """Return the internal topics of Headrace on a cluster, with the required permissions."""
        mirror, topics = self._settings.mirror, dict[str, Sequence[AclOperation]]()
        if alias == mirror.destination_cluster:
            topics[mirror.progress_topic] = (_READ, _WRITE)
        if alias == mirror.metrics_cluster:
            written = (mirror.metrics_topic, mirror.events_topic, mirror.audit.topic)
            topics |= {name: (_WRITE,) for name in written if name}
            topics |= {name: (_READ, _WRITE) for name in (self._settings.monitor.incidents_topic,) if name}
        return topics

    def _datastream(self, datastream: Mapping[str, Any]) -> Iterator[DoctorFinding]:
        source, destination = datastream["source"], datastream["destination"]
        selection = TopicSelection(source["topics"], source["exclude"], source["internal"])
        naming = TopicNaming(destination["name"])
        with self._survey(self._reached(source["cluster"])) as survey:
            topics = selection.choose(survey.names() | selection.names)
            there = survey.describe(topics).topics
        with self._survey(self._reached(destination["cluster"])) as survey:
            copies = survey.describe([naming.destination(topic) for topic in topics]).topics
        pairs = [
            TopicPair(there[topic], copies.get(naming.destination(topic)))
            for topic in topics
            if is_there(there.get(topic))
        ]
        yield from examined_pairs(datastream["name"], pairs)

    def _reached(self, reference: str) -> KafkaCluster:
        return self._settings.clusters.get(reference) or KafkaCluster(bootstrap_servers=reference)

    @contextmanager
    def _survey(self, settings: KafkaCluster) -> Iterator[ClusterSurvey]:
        survey = ClusterSurvey(settings, _CLIENT_ID, self._loop, self._seconds)
        try:
            yield survey
        finally:
            survey.close()


def _advice(error: HeadraceError, subject: str) -> str:
    """Return advice for an error that has none of its own."""
    if isinstance(error, Unreachable):
        return f"check that {subject} is running, its address, firewalls and TLS"
    if isinstance(error, NotAuthorized):
        return "check user, password and mechanism in the settings (docs/kafka-security.md)"
    return ""


def _tables() -> Sequence[str]:
    from pinot.tables import TABLES

    return [table.name for table in TABLES]
