"""`headrace copy` and a service with a broker that requires Kerberos: without a ticket, then with one.

Prints the exit status and message of `headrace copy`. An instance of the service then shows its problem
without a ticket, and the topics it has written once it has one.
Needs MIT Kerberos (`krb5kdc`, `kadmin.local`, `kdb5_util`, `kinit`, `kdestroy`) on the path and the package
`gssapi`, which registries carry as source only; for this reason it is not a test. The broker requires
re-authentication every two seconds, and the copy takes about eight.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient

from stack.kafka import KafkaCluster, NodePorts
from stack.ports import free_ports
from stack.server import Jvm
from stack.zookeeper import ZooKeeperServer
from tests.engines import write
from tests.kafka_data import Record, counts, make_topic
from tests.patience import wait_until
from tests.running import RunningInstance

_REALM = "HEADRACE.TEST"
_LISTENER = "SASL_PLAINTEXT"
_RECORDS = 400
_CLIENTS = """[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
"""
_CENTRE = """[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
 }}
"""
_SETTINGS = """[clusters.guarded]
bootstrap_servers = "{guarded}"
[clusters.guarded.security]
protocol = "SASL_PLAINTEXT"
mechanism = "GSSAPI"
[clusters.open]
bootstrap_servers = "{open}"
"""


class Realm:
    """New Kerberos realm with a principal for the broker and one for the mirror."""

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.folder = folder
        values = {"realm": _REALM, "port": port, "folder": folder}
        (folder / "krb5.conf").write_text(_CLIENTS.format(**values))
        (folder / "kdc.conf").write_text(_CENTRE.format(**values))
        self.environment = {
            **os.environ,
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder}/tickets",
        }
        self.run("kdb5_util", "create", "-s", "-r", _REALM, "-P", "master")
        for principal, keytab in (("kafka/127.0.0.1", "broker"), ("mirror", "mirror")):
            self.run("kadmin.local", "-q", f"addprinc -randkey {principal}")
            self.run("kadmin.local", "-q", f"ktadd -norandkey -k {folder}/{keytab}.keytab {principal}")

    def run(self, *command: str) -> None:
        """Run one of the Kerberos commands."""
        subprocess.run(command, env=self.environment, check=True, capture_output=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the key distribution centre."""
        with (self.folder / "kdc.log").open("w") as log:
            centre = subprocess.Popen(["krb5kdc", "-n"], env=self.environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            centre.terminate()
            centre.wait()

    def broker(self) -> KafkaCluster:
        """Return a broker that requires a ticket and re-authentication every two seconds."""
        login = (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
            f' keyTab="{self.folder}/broker.keytab" principal="kafka/127.0.0.1@{_REALM}";'
        )
        return KafkaCluster(
            "guarded",
            self.folder / "guarded",
            [NodePorts.free([_LISTENER])],
            jvm=_jvm(f"-Djava.security.krb5.conf={self.folder}/krb5.conf"),
            properties={
                "sasl.enabled.mechanisms": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "connections.max.reauth.ms": 2000,
                f"listener.name.{_LISTENER.lower()}.gssapi.sasl.jaas.config": login,
            },
        )


def _jvm(*options: str) -> Jvm:
    return Jvm(heap_mib=512, quick_start=True, options=options)


def main() -> None:
    """Print the output of each command."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name)
        realm = Realm(folder)
        running.enter_context(realm.running())
        guarded = realm.broker()
        beside = KafkaCluster("open", folder / "open", [NodePorts.free()], jvm=_jvm())
        for cluster in (guarded, beside):
            cluster.start()
            running.callback(cluster.kill)
        make_topic(guarded.address, "tickets")
        now = int(time.time() * 1000)  # retention would delete older records
        records = [Record(0, b"%d" % number, b"v" * 10_000, (), now) for number in range(_RECORDS)]
        write(guarded.address, "tickets", records, batch_size=20_000)
        addresses = {"guarded": guarded.address_of(_LISTENER), "open": beside.address}
        (folder / "headrace.toml").write_text(_SETTINGS.format(**addresses))
        copy = ["copy", "--until-end", "--bytes-per-second", "500000"]
        _run_and_print("copy without a ticket", realm, *copy)
        realm.run("kinit", "-k", "-t", f"{folder}/mirror.keytab", "mirror")
        _run_and_print("copy with a ticket", realm, *copy)
        _run_and_print("verify", realm, "verify")
        realm.run("kdestroy")
        _serve(realm, guarded, beside, running)


def _run_and_print(label: str, realm: Realm, command: str, *options: str) -> None:
    sides = ["--source", "guarded", "--destination", "open", "--topics", "tickets"]
    line = [sys.executable, "-m", "headrace", command, "--config", str(realm.folder / "headrace.toml")]
    began = time.monotonic()
    done = subprocess.run(
        [*line, *sides, *options], env=realm.environment, capture_output=True, text=True, check=False
    )
    output = re.sub(r"\s+", " ", (done.stdout if done.returncode == 0 else done.stderr).strip()[-300:])
    print(f"{label}: exit status {done.returncode} after {time.monotonic() - began:.1f} s: … {output}")


def _serve(realm: Realm, guarded: KafkaCluster, beside: KafkaCluster, running: ExitStack) -> None:
    """Create topics and write records, measurements and events where a ticket is required."""
    zookeeper = ZooKeeperServer("zookeeper", realm.folder / "zookeeper", free_ports(1)[0])
    zookeeper.start()
    running.callback(zookeeper.stop)
    settings = {
        "ZOOKEEPER__SERVERS": zookeeper.address,
        "CLUSTERS__OPEN__BOOTSTRAP_SERVERS": beside.address,
        "CLUSTERS__GUARDED__BOOTSTRAP_SERVERS": guarded.address_of(_LISTENER),
        "CLUSTERS__GUARDED__SECURITY__PROTOCOL": _LISTENER,
        "CLUSTERS__GUARDED__SECURITY__MECHANISM": "GSSAPI",
        "MIRROR__DESTINATION_CLUSTER": "guarded",
        "MIRROR__METRICS_CLUSTER": "guarded",
        "MIRROR__WORKER__PROCESSES": "1",
        "MIRROR__WORKER__METRICS_INTERVAL_SECONDS": "1",
    }
    environment = realm.environment | {f"HEADRACE_{key}": value for key, value in settings.items()}
    instance = RunningInstance("one", realm.folder, environment)
    running.callback(instance.stop)
    instance.start()
    body = {
        "name": "guarded",
        "source": {"cluster": "open", "topics": "tickets"},
        "destination": {"cluster": "guarded", "name": "copy.*"},
        "metadata": {"owner": "bench"},
    }
    instance.rest.post("/v1/datastreams", body)
    problem = wait_until(lambda: instance.rest.get("/v1/datastreams")[0]["problem"], "a problem")
    print(f"serve without a ticket: … {problem['reason']}")
    realm.run("kinit", "-k", "-t", f"{realm.folder}/mirror.keytab", "mirror")
    topics = ["copy.tickets", "headrace-mirror-metrics", "headrace-placement-events"]

    def written() -> dict[str, int]:
        found = dict(counts(guarded.address, topics)) if set(topics) <= names() else {}
        return found if found and all(found.values()) and found[topics[0]] == _RECORDS else {}

    def names() -> set[str]:
        return set(AdminClient({"bootstrap.servers": guarded.address}).list_topics(timeout=10).topics)

    found = wait_until(written, "records, measurements and events")
    left = instance.rest.get("/v1/datastreams")[0]["problem"]
    print(f"serve with a ticket: … {found}, problem {left}")
