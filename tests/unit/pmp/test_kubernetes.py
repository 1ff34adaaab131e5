"""deploy/spark/kubernetes.yaml: access to the pods of the job, their users, and their secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from jsonschema_rs import validator_for

_FILE: Final = Path(__file__).parents[3] / "deploy/spark/kubernetes.yaml"
_DRIVER: Final = "headrace-pmp"
_EXECUTOR: Final = "headrace-pmp-executor"


@pytest.fixture(scope="module")
def manifests() -> dict[tuple[str, str], Any]:
    """Return the manifests by kind and name."""
    found: list[Any] = [yaml.safe_load(one) for one in _FILE.read_text(encoding="utf-8").split("\n---\n")]
    named = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(named) == len(found)
    return named


def driver(manifests: dict[tuple[str, str], Any]) -> Any:
    return manifests["Deployment", _DRIVER]["spec"]["template"]


def options(manifests: dict[tuple[str, str], Any]) -> dict[str, str]:
    """Return the options of spark-submit."""
    (container,) = driver(manifests)["spec"]["containers"]
    given = [one.removeprefix("--conf=") for one in container["args"] if one.startswith("--conf=")]
    return dict(one.split("=", 1) for one in given)


def executor(manifests: dict[tuple[str, str], Any]) -> Any:
    """Return the template of its pods, at the path given to spark-submit."""
    path = options(manifests)["spark.kubernetes.executor.podTemplateFile"]
    (mount,) = [
        one
        for one in driver(manifests)["spec"]["containers"][0]["volumeMounts"]
        if path == f"{one['mountPath']}/{path.rpartition('/')[2]}"
    ]
    (volume,) = [one for one in driver(manifests)["spec"]["volumes"] if one["name"] == mount["name"]]
    return yaml.safe_load(
        manifests["ConfigMap", volume["configMap"]["name"]]["data"][path.rpartition("/")[2]]
    )


def test_no_pod_runs_as_root_or_becomes_it(manifests: dict[tuple[str, str], Any]) -> None:
    for pod in (driver(manifests)["spec"], executor(manifests)["spec"]):
        chosen = pod["securityContext"]
        assert (chosen["runAsNonRoot"], chosen["runAsUser"], chosen["runAsGroup"]) == (True, 185, 185)
        assert chosen["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }
    assert options(manifests)["spark.kubernetes.executor.podTemplateContainerName"] == "executor"
    assert "USER 185" in (_FILE.parent / "Dockerfile").read_text()


def test_executors_have_no_rights_at_the_api_server(manifests: dict[tuple[str, str], Any]) -> None:
    assert options(manifests)["spark.kubernetes.authenticate.executor.serviceAccountName"] == _EXECUTOR
    assert manifests["ServiceAccount", _EXECUTOR]["automountServiceAccountToken"] is False
    assert executor(manifests)["spec"]["automountServiceAccountToken"] is False
    bound = [one["name"] for one in manifests["RoleBinding", _DRIVER]["subjects"]]
    assert bound == [_DRIVER]


def test_both_sides_find_the_secret_of_spark_in_the_same_file(manifests: dict[tuple[str, str], Any]) -> None:
    chosen, pod = options(manifests), driver(manifests)["spec"]
    folder, _, name = chosen["spark.authenticate.secret.file"].rpartition("/")
    assert chosen["spark.kubernetes.executor.secrets.headrace-pmp-spark"] == folder
    (mount,) = [one for one in pod["containers"][0]["volumeMounts"] if one["mountPath"] == folder]
    (volume,) = [one for one in pod["volumes"] if one["name"] == mount["name"]]
    assert volume["secret"]["secretName"] == "headrace-pmp-spark"
    assert f"headrace-pmp-spark --from-literal={name}=" in _FILE.read_text()
    assert not volume["secret"]["defaultMode"] & 0o007


def test_no_secret_is_in_the_manifests(manifests: dict[tuple[str, str], Any]) -> None:
    assert not [name for kind, name in manifests if kind == "Secret"]
    (container,) = driver(manifests)["spec"]["containers"]
    assert {"secretRef": {"name": "headrace-pmp-passwords", "optional": True}} in container["envFrom"]
    settings = manifests["ConfigMap", _DRIVER]["data"]["headrace.toml"]
    assert "password" not in settings
    assert not [one for one in container["args"] if "password" in one.lower()]


def policy_of(manifests: dict[tuple[str, str], Any], app: str) -> Any:
    """Return the policy that selects the pods with this label."""
    (found,) = [
        one["spec"]
        for (kind, _), one in manifests.items()
        if kind == "NetworkPolicy" and one["spec"]["podSelector"]["matchLabels"] == {"app": app}
    ]
    return found


def openings(policy: Any) -> Iterator[tuple[str, int]]:
    """Yield the allowed peers with their port."""
    for rule in policy["ingress"]:
        for peer in rule["from"]:
            ((_, selector),) = peer.items()
            for port in rule["ports"]:
                yield next(iter(selector["matchLabels"].values())), port["port"]


def test_every_pod_is_reached_by_those_only_who_need_it(manifests: dict[tuple[str, str], Any]) -> None:
    chosen = options(manifests)
    assert driver(manifests)["metadata"]["labels"] == {"app": _DRIVER}
    assert chosen["spark.kubernetes.executor.label.app"] == _EXECUTOR
    rpc, blocks = int(chosen["spark.driver.port"]), int(chosen["spark.driver.blockManager.port"])
    own = int(chosen["spark.blockManager.port"])
    assert set(openings(policy_of(manifests, _DRIVER))) == {
        (_EXECUTOR, rpc),
        (_EXECUTOR, blocks),
        ("monitoring", 9404),
    }
    assert set(openings(policy_of(manifests, _EXECUTOR))) == {(_DRIVER, own), (_EXECUTOR, own)}
    for app in (_DRIVER, _EXECUTOR):
        assert policy_of(manifests, app)["policyTypes"] == ["Ingress", "Egress"]


SCHEMAS: Final = Path(__file__).parents[2] / "data/kubernetes"
"""Schemas of the API server, of an old and a new version.

From the package kubernetes-validate 1.37.0 (Apache License 2.0), which allows no unknown fields; reduced to
the kinds of the manifests and without descriptions.
"""


def complaints(version: str, document: Any) -> list[str]:
    schema = json.loads((SCHEMAS / f"{version}.json").read_text(encoding="utf-8"))
    kind = f"{document['apiVersion']}/{document['kind']}".replace("~", "~0").replace("/", "~1")
    validator = validator_for({**schema, "$ref": f"#/$defs/{kind}"})
    return [f"{one.instance_path}: {one.message}" for one in validator.iter_errors(document)]


@pytest.mark.parametrize("version", ["v1.29", "v1.37"])
def test_the_manifests_are_what_the_api_takes(manifests: dict[tuple[str, str], Any], version: str) -> None:
    """This checks only their form: no cluster has run them."""
    pod = {**executor(manifests), "apiVersion": "v1", "kind": "Pod"}
    assert executor(manifests) == pod
    for document in (*manifests.values(), pod):
        assert complaints(version, document) == []


def test_the_schemas_find_what_is_misspelt_or_of_another_type(manifests: dict[tuple[str, str], Any]) -> None:
    for path, value in (
        (("spec", "template", "spec", "containers", 0, "securityContext", "runAsNonRot"), True),
        (("spec", "replicas"), "one"),
        (("spec", "template", "spec", "volumes", 0, "secret"), {"secretname": "x"}),
    ):
        document = deepcopy(manifests["Deployment", _DRIVER])
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        assert len(complaints("v1.37", document)) == 1
