"""Jars are fetched completely, verified and only once, from a registry with every kind of failure."""

from __future__ import annotations

import hashlib
import http.server
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack.errors import Cancelled, CertificateRefused, DiskFull, RegistryUnreachable, WrongSum
from stack.jars import ivy
from stack.jars.coordinates import Artefact
from stack.jars.download import JarFolder
from stack.ports import free_ports
from stack.process.records import identity_of
from tests.patience import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.deep

_CERTIFICATE = Path(__file__).with_name("self-signed.pem")


class _Registry(http.server.ThreadingHTTPServer):
    """Server of jars in Maven's layout from memory; `held_back` ones never arrive completely."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.jars: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.held_back: set[str] = set()
        self.let_go = threading.Event()

    def add(self, name: str, content: bytes) -> Artefact:
        """Publish a jar; return its artefact with the correct checksum."""
        artefact = Artefact("org.example", name, "1.0", hashlib.sha256(content).hexdigest())
        self.jars[f"/org/example/{name}/1.0/{artefact.file_name}"] = content
        return artefact

    def fetched(self) -> list[str]:
        """Return the names of the jars requested, without those only looked up."""
        return [path.rpartition("/")[2] for verb, path in map(str.split, self.asked) if verb == "GET"]


class _Answer(http.server.BaseHTTPRequestHandler):
    server: _Registry

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        content = self.server.jars.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_body and self.path in self.server.held_back:
            self.wfile.write(content[: len(content) // 2])
            self.server.let_go.wait(PATIENCE_SECONDS)
        elif with_body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
        return


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Registry]:
    with _Registry() as server:
        threading.Thread(target=server.serve_forever).start()
        monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
        monkeypatch.setenv(ivy.ROOT_VARIABLE, f"http://127.0.0.1:{server.server_port}/")
        yield server
        server.let_go.set()
        server.shutdown()


def _fetch(folder: JarFolder) -> list[str]:
    """Fetch; return the reports."""
    said: list[str] = []
    folder.fetch(said.append, threading.Event())
    return said


def _leftovers(folder: JarFolder) -> set[str]:
    names = {path.name for path in folder.folder.iterdir()}
    return names - {".lock", ".verified.json"} - {file.name for file in folder.files()}


def test_a_set_comes_whole_and_only_once(registry: _Registry) -> None:
    artefacts = [registry.add(f"thing-{number}", b"content %d" % number * 1000) for number in range(60)]
    folder = JarFolder("test", artefacts)
    assert _fetch(folder)[-1].startswith("test jars: all 60 ")
    assert [file.name for file in folder.files()] == [artefact.file_name for artefact in artefacts]
    assert sorted(registry.fetched()) == sorted(artefact.file_name for artefact in artefacts)
    assert not _leftovers(folder)
    registry.asked.clear()
    assert _fetch(folder) == []
    assert registry.asked == []


def test_a_damaged_jar_is_fetched_again(registry: _Registry) -> None:
    artefacts = [registry.add("one", b"one" * 1000), registry.add("two", b"two" * 1000)]
    folder = JarFolder("test", artefacts)
    _fetch(folder)
    folder.files()[1].write_bytes(b"two" * 999 + b"tow")
    registry.asked.clear()
    _fetch(folder)
    assert registry.fetched() == ["two-1.0.jar"]
    assert folder.files()[1].read_bytes() == b"two" * 1000


def test_a_touched_jar_is_checked_and_kept(registry: _Registry) -> None:
    folder = JarFolder("test", [registry.add("one", b"one")])
    _fetch(folder)
    os.utime(folder.files()[0], (1, 1))
    registry.asked.clear()
    _fetch(folder)
    assert registry.asked == []


def test_a_wrong_sum_is_refused_and_nothing_is_kept(registry: _Registry) -> None:
    good = registry.add("good", b"good")
    listed = registry.add("changed", b"as it was locked")
    registry.add("changed", b"as it is served now")
    folder = JarFolder("test", [good, listed])
    with pytest.raises(WrongSum, match=r"\borg\.example:changed:1\.0 ") as caught:
        _fetch(folder)
    assert listed.sha256 in str(caught.value)
    assert not folder.files()[1].exists()
    assert not _leftovers(folder)


def test_a_jar_that_is_not_there_is_named(registry: _Registry) -> None:
    there = registry.add("there", b"there")
    folder = JarFolder("test", [there, Artefact("org.example", "gone", "1.0", "0" * 64)])
    with pytest.raises(RegistryUnreachable) as caught:
        _fetch(folder)
    assert caught.value.message.endswith(" org.example:gone:1.0")
    assert caught.value.advice
    assert folder.files()[0].exists()  # kept for the next attempt


def test_no_registry_is_one_line(registry: _Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ivy.ROOT_VARIABLE, f"http://127.0.0.1:{free_ports(1)[0]}/")
    with pytest.raises(RegistryUnreachable, match=r"jar registry: .*refused") as caught:
        _fetch(JarFolder("test", [registry.add("one", b"one")]))
    assert "\n" not in str(caught.value)


def test_giving_up_ends_the_download_and_leaves_nothing_half(registry: _Registry) -> None:
    whole, half = registry.add("a-whole", b"whole" * 1000), registry.add("half", b"half" * 100_000)
    registry.held_back.add("/org/example/half/1.0/half-1.0.jar")
    folder = JarFolder("test", [whole, half])
    cancelled = threading.Event()

    def give_up(_: str) -> None:
        cancelled.set()

    with pytest.raises(Cancelled):
        folder.fetch(give_up, cancelled)
    assert [file.exists() for file in folder.files()] == [True, False]
    assert not _leftovers(folder)
    registry.held_back.clear()
    _fetch(folder)
    assert folder.files()[1].read_bytes() == b"half" * 100_000
    assert registry.fetched().count("a-whole-1.0.jar") == 1


_FETCHING = """
import sys, threading
from stack.jars.coordinates import Artefact
from stack.jars.download import JarFolder
artefacts = [Artefact(*line.split()) for line in sys.argv[1:]]
JarFolder("test", artefacts).fetch(print, threading.Event())
"""


def test_killing_the_download_leaves_no_process_and_nothing_half(registry: _Registry) -> None:
    whole, half = registry.add("a-whole", b"whole" * 1000), registry.add("half", b"half" * 100_000)
    registry.held_back.add("/org/example/half/1.0/half-1.0.jar")
    folder = JarFolder("test", [whole, half])
    lines = [f"{a.group} {a.name} {a.version} {a.sha256}" for a in (whole, half)]
    with subprocess.Popen([sys.executable, "-c", _FETCHING, *lines], start_new_session=True) as fetching:
        wait_until(lambda: "half-1.0.jar" in registry.fetched())
        family = _descendants(fetching.pid)
        assert len(family) >= 2, "not a keeper and Ivy"
        fetching.send_signal(signal.SIGKILL)
    wait_until(lambda: all(identity_of(pid) is None for pid in family), "Ivy is gone")
    registry.held_back.clear()
    registry.let_go.set()
    _fetch(folder)
    assert folder.files()[1].read_bytes() == b"half" * 100_000
    assert registry.fetched().count("a-whole-1.0.jar") == 1, "a complete jar was fetched again"
    assert not _leftovers(folder)


def _descendants(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = stat.read_text(encoding="latin-1").rpartition(")")[2].split()
        if int(fields[1]) == pid:
            child = int(stat.parent.name)
            found += [child, *_descendants(child)]
    return found


def test_two_that_want_the_same_fetch_it_once(registry: _Registry) -> None:
    artefacts = [registry.add(f"thing-{number}", b"x" * 1000 * number) for number in range(1, 5)]
    folders = [JarFolder("test", artefacts) for _ in range(3)]
    failures: list[BaseException] = []

    def fetch(folder: JarFolder) -> None:
        try:
            _fetch(folder)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=fetch, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(registry.fetched()) == sorted(artefact.file_name for artefact in artefacts)


def test_too_little_disk_is_said_before_anything_is_fetched(registry: _Registry) -> None:
    folder = JarFolder("test", [registry.add("one", b"one")], size_bytes=10**18)
    with pytest.raises(DiskFull, match=r"\btest jars\b.* 1000000000\.00 GB"):
        _fetch(folder)
    assert registry.asked == []


@pytest.fixture(params=["the machine's Java", "the bundled Java"])
def java(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "the bundled Java":
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", "")
    return str(request.param)


@pytest.fixture
def over_tls(registry: _Registry, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Put the registry behind a self-signed certificate."""

    def switch() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(_CERTIFICATE)
        registry.socket = context.wrap_socket(
            registry.socket, server_side=True, do_handshake_on_connect=False
        )
        monkeypatch.setenv(ivy.ROOT_VARIABLE, f"https://127.0.0.1:{registry.server_port}/")

    return switch


@pytest.mark.usefixtures("java")
def test_an_unknown_certificate_is_said_to_be_that(registry: _Registry, over_tls: Callable[[], None]) -> None:
    over_tls()
    with pytest.raises(CertificateRefused, match="SSL_CERT_FILE"):
        _fetch(JarFolder("test", [registry.add("one", b"one")]))


@pytest.mark.usefixtures("java")
def test_a_certificate_that_python_trusts_will_do(
    registry: _Registry, over_tls: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    over_tls()
    monkeypatch.setenv("SSL_CERT_FILE", str(_CERTIFICATE))
    folder = JarFolder("test", [registry.add("one", b"one")])
    _fetch(folder)
    assert folder.files()[0].read_bytes() == b"one"


def test_the_command_line_tells_failures_in_one_line(registry: _Registry) -> None:
    del registry  # its home is empty, and the address below does not respond
    environment = {**os.environ, ivy.ROOT_VARIABLE: f"http://127.0.0.1:{free_ports(1)[0]}/"}

    def run(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "stack.jars", *arguments]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return answer.returncode, answer.stderr

    status, said = run("fetch", "spark")
    assert status == 1
    assert re.fullmatch(r"stack\.jars: .*\bregistry\b.*\n", said)
    assert "'hadoop'" in run("fetch", "hadoop")[1]
    assert run()[0] == 2
