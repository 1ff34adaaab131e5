"""A copy from a broker that requires Kerberos tickets, first without one, and what an instance asks there and
writes beside its workers: exit status and message.

Needs MIT Kerberos (`krb5kdc`, `kadmin.local`, `kdb5_util`, `kinit`) on the path and the package `gssapi`,
which registries have as source only; that is why no test does this. The broker asks for another
authentication every two seconds, the copy takes about eight.
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

from stack.kafka import KafkaCluster, NodePorts
from stack.ports import free_ports
from stack.server import Jvm
from tests.engines import write
from tests.kafka_data import Record, make_topic

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


_CONTROL = """
import sys
from pathlib import Path
from headrace.settings import load_settings
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.metric_topic import placement_event_topic
from mirror.model.metrics import PlacementEvent
from mirror.model.topics import TopicDescription
cluster = load_settings(Path(sys.argv[1])).clusters["guarded"]
admin = KafkaAdmin(cluster)
admin.create(TopicDescription("events", 1))
events = placement_event_topic(cluster, "events")
events.publish([PlacementEvent(1, "key", "plan", 1, "one", "orders", "", 0, "", "", "", "", 0.0, "because")])
events.close(30.0)
print(sorted(admin.list_topics()), events.drops())
"""
"""What an instance does beside its workers."""


class Realm:
    """A realm of its own, with a principal for the broker and one for us."""

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
        """One of Kerberos' own commands."""
        subprocess.run(command, env=self.environment, check=True, capture_output=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The key distribution centre."""
        with (self.folder / "kdc.log").open("w") as log:
            centre = subprocess.Popen(["krb5kdc", "-n"], env=self.environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            centre.terminate()
            centre.wait()

    def broker(self) -> KafkaCluster:
        """A broker that refuses connections without a ticket and re-authenticates every two seconds."""
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
    """Print what each command said."""
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
        records = [Record(0, b"%d" % number, b"v" * 10_000, (), 1) for number in range(_RECORDS)]
        write(guarded.address, "tickets", records, batch_size=20_000)
        addresses = {"guarded": guarded.address_of(_LISTENER), "open": beside.address}
        (folder / "headrace.toml").write_text(_SETTINGS.format(**addresses))
        copy = ["copy", "--until-end", "--bytes-per-second", "500000"]
        _say("copy without a ticket", realm, *copy)
        realm.run("kinit", "-k", "-t", f"{folder}/mirror.keytab", "mirror")
        _say("copy with a ticket", realm, *copy)
        _say("verify", realm, "verify")
        _print("the control process", realm, [sys.executable, "-c", _CONTROL, f"{folder}/headrace.toml"])


def _say(what: str, realm: Realm, command: str, *options: str) -> None:
    sides = ["--source", "guarded", "--destination", "open", "--topics", "tickets"]
    line = [sys.executable, "-m", "headrace", command, "--config", str(realm.folder / "headrace.toml")]
    _print(what, realm, [*line, *sides, *options])


def _print(what: str, realm: Realm, line: list[str]) -> None:
    began = time.monotonic()
    done = subprocess.run(line, env=realm.environment, capture_output=True, text=True, check=False)
    told = re.sub(r"\s+", " ", (done.stdout if done.returncode == 0 else done.stderr).strip()[-300:])
    print(f"{what}: exit status {done.returncode} after {time.monotonic() - began:.1f} s: … {told}")
