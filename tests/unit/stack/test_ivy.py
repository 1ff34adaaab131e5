"""Arguments of Ivy, and interpretation of its output."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from stack.errors import CertificateRefused, DiskFull, JarsUnavailable, RegistryUnreachable, StackError
from stack.jars import ivy
from stack.jars.coordinates import Artefact
from stack.jars.java import JavaRuntime

_JAR = Artefact("org.example", "thing_2.13", "1.2.3")
_REFUSED = "\tServer access error at url scheme://host/x.jar ({})\n"


def test_a_flat_request_wants_the_jars_alone(tmp_path: Path) -> None:
    ivy.write_request(tmp_path, [_JAR])
    dependency = ET.parse(tmp_path / "ivy.xml").find("dependencies/dependency")
    assert dependency is not None
    assert dependency.attrib == {
        "org": "org.example",
        "name": "thing_2.13",
        "rev": "1.2.3",
        "transitive": "false",
        "conf": "default->default",
    }
    resolver = ET.parse(tmp_path / "settings.xml").find("resolvers/ibiblio")
    assert resolver is not None
    assert resolver.attrib["usepoms"] == "false"
    assert "root" not in resolver.attrib


def test_a_classifier_is_an_attribute_of_maven(tmp_path: Path) -> None:
    ivy.write_request(tmp_path, [Artefact("org.example", "thing", "1", classifier="test")])
    jar = ET.parse(tmp_path / "ivy.xml").find("dependencies/dependency/artifact")
    assert jar is not None
    assert jar.attrib["{http://ant.apache.org/ivy/maven}classifier"] == "test"


def test_a_transitive_request_reads_poms(tmp_path: Path) -> None:
    ivy.write_request(tmp_path, [_JAR], transitive=True)
    dependency = ET.parse(tmp_path / "ivy.xml").find("dependencies/dependency")
    assert dependency is not None
    assert dependency.attrib["conf"] == "default->runtime,master"
    resolver = ET.parse(tmp_path / "settings.xml").find("resolvers/ibiblio")
    assert resolver is not None
    assert "usepoms" not in resolver.attrib


def test_another_registry_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACK_MAVEN_ROOT", 'https://mirror.example/maven?a=1&b="2"')
    ivy.write_request(tmp_path, [_JAR])
    resolver = ET.parse(tmp_path / "settings.xml").find("resolvers/ibiblio")
    assert resolver is not None
    assert resolver.attrib["root"] == 'https://mirror.example/maven?a=1&b="2"'


def test_only_whole_jars_have_arrived(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    whole, classified = "org.example~thing_2.13~1.2.3.jar", "a~b~1~test.jar"
    for name in (whole, classified, "a~b~1.jar.part", "ivy-a~b~1.xml", "other.jar"):
        (cache / name).touch()
    assert ivy.arrived(tmp_path) == {_JAR.coordinate: cache / whole, "a:b:1:test": cache / classified}


def test_proxies_that_pip_uses_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.delenv("HTTP_PROXY", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "localhost,.example.org")
    line = ivy.command(JavaRuntime(Path("/java"), 17, "path"), tmp_path, ["-Dmore=1"])
    assert line[0] == "/java/bin/java"
    assert {"-Dhttps.proxyHost=proxy.example", "-Dhttps.proxyPort=3128", "-Dmore=1"} <= set(line)
    assert "-Dhttp.nonProxyHosts=localhost|*.example.org" in line
    assert not any(option.startswith("-Dhttp.proxyHost") for option in line)


@pytest.mark.parametrize(
    ("output", "error", "says"),
    [
        (
            _REFUSED.format("javax.net.ssl.SSLHandshakeException: PKIX path building failed: and so on"),
            CertificateRefused,
            "SSL_CERT_FILE",
        ),
        (
            _REFUSED.format("java.net.ConnectException: Connection refused"),
            RegistryUnreachable,
            "Connection refused",
        ),
        (
            "You probably access the destination server through a proxy server that is not well configured.",
            RegistryUnreachable,
            "unknown host",
        ),
        (
            "\t\tmodule not found: a#b;1\n\t\tmodule not found: a#c;1\n",
            RegistryUnreachable,
            "a:b:1 and 1 more",
        ),
        ("java.io.IOException: No space left on device", DiskFull, "disk"),
        ("Exception in thread main\n\nsomething odd\n\n", JarsUnavailable, "something odd"),
        ("", JarsUnavailable, "Ivy"),
    ],
)
def test_failures_say_what_to_do(output: str, error: type[StackError], says: str) -> None:
    failure = ivy.failure(output, "the kafka jars")
    assert type(failure) is error
    assert "the kafka jars" in str(failure)
    assert says in str(failure)
    assert failure.advice
    assert "\n" not in str(failure)
