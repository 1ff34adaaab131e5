"""Interface to Ivy, the jar resolver inside the PySpark wheel: its files, its command, its failures."""

from __future__ import annotations

import importlib.util
import os
import re
import urllib.parse
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from stack.errors import (
    CertificateRefused,
    DiskFull,
    JarsUnavailable,
    RegistryUnreachable,
    StackError,
)
from stack.jars.coordinates import Artefact
from stack.jars.java import JavaRuntime

PYSPARK: Final = "4.0.5"
"""Version of PySpark to install for the jars in its wheel, as in pyproject.toml."""
ROOT_VARIABLE: Final = "STACK_MAVEN_ROOT"
_ACCESS_ERROR: Final = re.compile(r"Server access error at url \S+ \((.+)\)")
_NOT_FOUND: Final = re.compile(r"module not found: (\S+)")
_NAME: Final = "[organisation]~[module]~[revision](~[classifier]).[ext]"
_EXTRA: Final = "http://ant.apache.org/ivy/maven"
"""Name of the namespace of attributes that Maven has and Ivy has not."""


def pyspark_jars() -> Path:
    """Return the folder of jars inside the PySpark wheel. Raises JarsUnavailable without the wheel."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JarsUnavailable(
            "PySpark is not installed; its wheel contains the jars of the servers and the jar of Ivy",
            advice=f"run pip install pyspark=={PYSPARK}",
        )
    return Path(spec.submodule_search_locations[0]) / "jars"


def one_jar(pattern: str) -> Path:
    """Return the jar of the PySpark wheel that matches a glob. Raises JarsUnavailable."""
    found = sorted(pyspark_jars().glob(pattern))
    if not found:
        raise JarsUnavailable(
            f"no jar of PySpark matches {pattern}", advice=f"pip install pyspark=={PYSPARK}"
        )
    return found[0]


def write_request(folder: Path, artefacts: Iterable[Artefact], *, transitive: bool = False) -> None:
    """Write `ivy.xml` and `settings.xml`; Ivy stores jars in `folder`/cache.

    The default is a flat request for the jars alone: no poms, and no checksums except Headrace's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    root = os.environ.get(ROOT_VARIABLE)
    place = f" root={quoteattr(root)}" if root else ""
    flat = "" if transitive else ' usepoms="false" useMavenMetadata="false" checksums=""'
    (folder / "settings.xml").write_text(
        f"""<ivysettings>
 <settings defaultResolver="registry"/>
 <timeout-constraints>
  <timeout-constraint name="patience" connectionTimeout="10000" readTimeout="60000"/>
 </timeout-constraints>
 <caches defaultCacheDir={quoteattr(str(folder.absolute() / "cache"))} artifactPattern="{_NAME}"/>
 <resolvers>
  <ibiblio name="registry" m2compatible="true" timeoutConstraint="patience"{flat}{place}/>
 </resolvers>
</ivysettings>
""",
        encoding="utf-8",
    )
    lines = "\n".join(_dependency(artefact, transitive) for artefact in artefacts)
    (folder / "ivy.xml").write_text(
        f"""<ivy-module version="2.0" xmlns:m="{_EXTRA}">
 <info organisation="local" module="stack"/>
 <configurations><conf name="default"/></configurations>
 <dependencies>
{lines}
 </dependencies>
</ivy-module>
""",
        encoding="utf-8",
    )


def _dependency(artefact: Artefact, transitive: bool) -> str:
    names = f'org="{artefact.group}" name="{artefact.name}" rev="{artefact.version}"'
    if transitive:
        return f'  <dependency {names} conf="default->runtime,master"/>'
    classifier = f' m:classifier="{artefact.classifier}"' if artefact.classifier else ""
    jar = f'<artifact name="{artefact.name}" type="jar" ext="jar"{classifier}/>'
    return f'  <dependency {names} transitive="false" conf="default->default">{jar}</dependency>'


def arrived(folder: Path) -> dict[str, Path]:
    """Map the coordinate of each complete jar in `folder`/cache to its file. Ivy renames a jar when it is
    complete."""
    found = {}
    for path in (folder / "cache").glob("*~*~*.jar"):
        found[":".join(path.stem.split("~"))] = path
    return found


def command(java: JavaRuntime, folder: Path, options: Iterable[str]) -> list[str]:
    """Return the command that runs Ivy with the files of `write_request`. `options`: options for the JVM."""
    return [
        *(str(java.executable), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *_proxy_options(),
        *options,
        *("-jar", str(one_jar("ivy-*.jar")), "-settings", str(folder / "settings.xml")),
        *("-ivy", str(folder / "ivy.xml"), "-confs", "default", "-types", "jar", "bundle"),
    ]


def _proxy_options() -> list[str]:
    """Convert the proxy variables that pip reads to options for Java, which ignores them."""
    options = []
    for scheme in ("http", "https"):
        value = os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY")
        if value:
            proxy = urllib.parse.urlsplit(value if "//" in value else f"//{value}")
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    exempt = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    if options and exempt:
        hosts = (name.strip() for name in exempt.split(","))
        options.append("-Dhttp.nonProxyHosts=" + "|".join(f"*{h}" if h.startswith(".") else h for h in hosts))
    return options


def failure(output: str, operation: str) -> StackError:
    """Return the error that Ivy's output describes. `operation`: the jars that it should have fetched."""
    reasons = _ACCESS_ERROR.findall(output)
    if "No space left on device" in output or "Disk quota exceeded" in output:
        return DiskFull(f"disk full while fetching {operation}", advice="free 1 GB and try again")
    if any("PKIX" in reason or "certificate" in reason.lower() for reason in reasons):
        return CertificateRefused(
            f"cannot fetch {operation}: neither Java nor Python trusts the certificate of the jar registry",
            advice="set SSL_CERT_FILE to the file of your certificate authority",
        )
    if reasons or "not well configured" in output:
        reason = reasons[0].partition(": ")[2] or reasons[0] if reasons else "unknown host"
        return RegistryUnreachable(
            f"cannot fetch {operation} from the jar registry: {reason}",
            advice=f"check the network, set HTTPS_PROXY, or choose a mirror with {ROOT_VARIABLE}",
        )
    missing = _NOT_FOUND.findall(output)
    if missing:
        return RegistryUnreachable(
            f"cannot fetch {operation}: the registry lacks {missing[0].replace('#', ':').replace(';', ':')}"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else ""),
            advice=f"try again, or choose another registry with {ROOT_VARIABLE}",
        )
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "no output")
    return JarsUnavailable(f"cannot fetch {operation}: Ivy failed: {last}", advice="try again")
