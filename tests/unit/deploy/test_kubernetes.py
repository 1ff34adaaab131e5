"""deploy/helm and deploy/kubernetes: valid for the API, closed networks, and equal to each other."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from jsonschema_rs import validator_for

from api.access.origins import check_origin
from deploy.helm.render import (
    CHART,
    MANIFESTS,
    ONE_INSTANCE,
    VALUES,
    can_render,
    digest,
    lint,
    rendered,
    values_of,
)
from headrace.process.access import service_names
from headrace.settings import HeadraceSettings, StoreKind, load_settings
from headrace_dev.reference.of_metrics import described
from mirror.errors import ConfigError, Forbidden
from tests.unit.pmp.test_kubernetes import complaints

ROOT: Final = Path(__file__).parents[3]


def documents(text: str) -> dict[tuple[str, str], Any]:
    parts: list[Any] = [yaml.safe_load(one) for one in f"\n{text}".split("\n---\n")]
    found = [one for one in parts if one]
    named = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(named) == len(found)
    return named


TEXT: Final = MANIFESTS.read_text(encoding="utf-8")
FOUND: Final = documents(TEXT)
POD: Final = FOUND["StatefulSet", "headrace"]["spec"]["template"]
CONTAINER: Final = POD["spec"]["containers"][0]
SETTINGS: Final = FOUND["ConfigMap", "headrace"]["data"]["headrace.toml"]


@pytest.mark.parametrize("file", [MANIFESTS, ONE_INSTANCE], ids=lambda file: file.stem)
def test_the_manifests_are_made_of_this_chart(file: Path) -> None:
    assert f" {digest()} " in file.read_text(encoding="utf-8").partition("\n")[0], (
        "run python -m deploy.helm.render"
    )


def test_a_pod_is_ready_when_it_can_serve_whatever_its_datastreams_do() -> None:
    (container,) = FOUND["StatefulSet", "headrace"]["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/v1/ready"


def test_helm_renders_the_same_and_has_nothing_against_the_chart() -> None:
    """Without Helm the digest proves that the manifests were made from these files."""
    if not can_render():
        assert digest() in TEXT
        return
    assert lint() == []
    assert documents(rendered()) == FOUND
    few = documents(
        rendered({"networkPolicy": {"enabled": False}, "serviceMonitor": {"enabled": False}, "replicas": 1})
    )
    assert set(FOUND) - set(few) == {("NetworkPolicy", "headrace"), ("ServiceMonitor", "headrace")}
    assert few["StatefulSet", "headrace"]["spec"]["replicas"] == 1


@pytest.mark.parametrize("version", ["v1.29", "v1.37"])
@pytest.mark.parametrize("file", [MANIFESTS, ONE_INSTANCE], ids=lambda file: file.stem)
def test_the_api_takes_them(version: str, file: Path) -> None:
    """ServiceMonitor and ScaledObject belong to operators, whose schemas are not included."""
    for (kind, _), one in documents(file.read_text(encoding="utf-8")).items():
        if kind != "ServiceMonitor":
            assert complaints(version, one) == []


def stored_in(config: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> StoreKind:
    """Return the store that the settings of pods choose."""
    for one in CONTAINER["env"]:
        if "value" in one:
            monkeypatch.setenv(one["name"], one["value"])
    file = folder / "headrace.toml"
    file.write_text(config, encoding="utf-8")
    settings = load_settings(file)
    settings.api.check_exposure()
    return settings.store


def test_the_values_are_of_three_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"one-instance": StoreKind.EMBEDDED, "store-on-kafka": StoreKind.KAFKA}
    assert {file.stem for file in VALUES.iterdir()} == set(sizes)
    for name, store in sizes.items():
        given = values_of(name)
        assert refusals(given) == []
        assert stored_in(given["config"], tmp_path, monkeypatch) is store
        assert (given["replicas"] == 1) == (store is StoreKind.EMBEDDED)
    assert stored_in(values()["config"], tmp_path, monkeypatch) is StoreKind.ZOOKEEPER


def test_the_state_of_one_instance_is_in_a_volume() -> None:
    found = documents(ONE_INSTANCE.read_text(encoding="utf-8"))
    stateful = found["StatefulSet", "headrace"]["spec"]
    assert found["ConfigMap", "headrace"]["data"]["headrace.toml"] == values_of("one-instance")["config"]
    assert stateful["replicas"] == 1
    (claim,) = stateful["volumeClaimTemplates"]
    pod = stateful["template"]["spec"]
    (mounted,) = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "state"]
    assert claim["metadata"]["name"] == mounted["name"]
    assert mounted["mountPath"] == told(CONTAINER, "HEADRACE_MIRROR__STATE_DIRECTORY")
    assert "state" not in {one["name"] for one in pod["volumes"]}


def told(container: Any, name: str) -> Any:
    return next(one["value"] for one in container["env"] if one["name"] == name)


def test_helm_refuses_pods_that_would_each_have_a_state_of_their_own() -> None:
    """Without Helm only the presence of the comparison in the template is checked."""
    alone = values_of("one-instance")
    if not can_render():
        assert "regexMatch" in (CHART / "templates/instances.yaml").read_text(encoding="utf-8")
        return
    assert documents(rendered(alone)) == documents(ONE_INSTANCE.read_text(encoding="utf-8"))
    assert rendered(values_of("store-on-kafka"))
    assert rendered({**alone, "stateVolume": {"size": "1Gi", "storageClass": "fast"}})
    for given in ({"replicas": 2}, {"stateVolume": {"size": ""}}):
        with pytest.raises(Exception, match="stateVolume"):
            rendered({**alone, **given})


def test_every_value_of_the_chart_is_used() -> None:
    used = "".join(file.read_text(encoding="utf-8") for file in (CHART / "templates").iterdir())
    for name, inner in values().items():
        keys = (
            [f"{name}.{key}" for key in inner] if isinstance(inner, dict) and name != "resources" else [name]
        )
        for key in keys:
            assert f".Values.{key}" in used


def values() -> Any:
    return yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))


def refusals(given: dict[str, Any]) -> list[str]:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    return [one.message for one in validator_for(schema).iter_errors(values() | given)]


def test_the_schema_takes_the_values_of_the_chart_and_names_each() -> None:
    assert refusals({}) == []
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert schema["properties"].keys() - {"global"} == values().keys()


@pytest.mark.parametrize(
    "given",
    [
        {"bogus": 1},
        {"workers": 0},
        {"replicas": "3"},
        {"terminationGracePeriodSeconds": 5},
        {"pauseBeforeStopSeconds": -1},
        {"image": {"repo": "x"}},
        {"networkPolicy": {"egressPorts": [70_000]}},
        {"maxUnavailable": "many"},
        {"config": {"api": {}}},
    ],
)
def test_the_schema_refuses_values_that_cannot_be(given: dict[str, Any]) -> None:
    assert refusals(given)


def test_helm_refuses_what_the_schema_or_the_stop_deadline_does_not_allow() -> None:
    """Without Helm only the presence of the comparison in the template is checked."""
    slow = {"config": values()["config"] + "\n[mirror.worker]\nstop_deadline_seconds = 90\n"}
    wrong: list[dict[str, Any]] = [{"bogus": 1}, {"terminationGracePeriodSeconds": 34}, slow]
    if not can_render():
        template = (CHART / "templates/instances.yaml").read_text(encoding="utf-8")
        assert "lt (int .Values.terminationGracePeriodSeconds) $least" in template
        return
    for given in wrong:
        with pytest.raises(Exception, match=r"bogus|terminationGracePeriodSeconds"):
            rendered(given)
    assert rendered({**slow, "terminationGracePeriodSeconds": 105})


def test_what_instances_are_told_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for one in CONTAINER["env"]:
        if "value" in one:
            monkeypatch.setenv(one["name"], one["value"])
    monkeypatch.setenv("HEADRACE_MIRROR__INSTANCE_NAME", "headrace-0")
    file = tmp_path / "headrace.toml"
    file.write_text(SETTINGS, encoding="utf-8")
    settings = load_settings(file)
    settings.api.check_exposure()
    assert settings.api.exposure() == ""
    assert settings.api.port == CONTAINER["ports"][0]["containerPort"]
    stop = settings.mirror.worker.stop_deadline_seconds
    pause = int(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    assert POD["spec"]["terminationGracePeriodSeconds"] >= pause + stop + 10


def test_an_instance_is_called_by_the_names_of_its_service(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in CONTAINER["env"]:
        if "value" in one:
            monkeypatch.setenv(one["name"], one["value"].replace("$(NAMESPACE)", "headrace"))
    hosts = service_names(load_settings(None).api, "headrace-0.headrace-pods.headrace.svc:32311")
    for ending in ("", ".headrace", ".headrace.svc", ".headrace.svc.cluster.local"):
        name = f"headrace{ending}"
        check_origin("GET", {"host": f"{name}:32311"}, hosts, frozenset())
    with pytest.raises(Forbidden):
        check_origin("GET", {"host": "elsewhere:32311"}, hosts, frozenset())


def test_a_pod_has_as_many_workers_as_cores_that_it_asks_for() -> None:
    """KEDA uses the same number as capacity of an instance."""
    told = {one["name"]: one.get("value") for one in CONTAINER["env"]}
    scaled: Any = yaml.safe_load((MANIFESTS.parent / "keda.yaml").read_text(encoding="utf-8"))
    (trigger,) = scaled["spec"]["triggers"]
    cores = CONTAINER["resources"]["requests"]["cpu"]
    assert told["HEADRACE_MIRROR__WORKER__PROCESSES"] == cores == trigger["metadata"]["threshold"]


def test_variables_of_services_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Service named headrace would give each pod HEADRACE_PORT and others, which are unknown keys."""
    assert POD["spec"]["enableServiceLinks"] is False
    monkeypatch.setenv("HEADRACE_PORT", "tcp://10.0.0.1:32311")
    with pytest.raises(ConfigError):
        load_settings(None)


def test_files_that_settings_name_are_mounted() -> None:
    told = tomllib.loads(SETTINGS)["api"]
    files = [*told["tls"].values(), told["access"]["token_file"], CONTAINER["args"][2]]
    folders = {one["mountPath"] for one in CONTAINER["volumeMounts"]}
    assert {str(Path(file).parent) for file in files} <= folders
    assert {one["name"] for one in CONTAINER["volumeMounts"]} == {
        one["name"] for one in POD["spec"]["volumes"]
    }
    for one in POD["spec"]["volumes"]:
        if "secret" in one:
            assert not one["secret"]["defaultMode"] & 0o007


def test_pods_run_as_nobody_and_write_nowhere() -> None:
    chosen = POD["spec"]["securityContext"]
    assert (chosen["runAsNonRoot"], chosen["runAsUser"]) == (True, 10001)
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert POD["spec"]["automountServiceAccountToken"] is False
    assert not [kind for kind, _ in FOUND if kind in ("Secret", "Role", "ClusterRole")]


def test_selectors_select_the_pods() -> None:
    labels = POD["metadata"]["labels"].items()
    services = [one["spec"]["selector"] for (kind, _), one in FOUND.items() if kind == "Service"]
    budget = FOUND["PodDisruptionBudget", "headrace"]["spec"]["selector"]["matchLabels"]
    policy = FOUND["NetworkPolicy", "headrace"]["spec"]["podSelector"]["matchLabels"]
    for selector in (*services, budget, policy):
        assert selector.items() <= labels
    assert FOUND["StatefulSet", "headrace"]["spec"]["serviceName"] == "headrace-pods"
    address = next(one["value"] for one in CONTAINER["env"] if one["name"].endswith("ADVERTISED_ADDRESS"))
    assert ".headrace-pods.$(NAMESPACE).svc:32311" in address


def test_prometheus_finds_one_service_once() -> None:
    wanted = FOUND["ServiceMonitor", "headrace"]["spec"]
    scraped = [
        name
        for (kind, name), one in FOUND.items()
        if kind == "Service"
        and wanted["selector"]["matchLabels"].items() <= one["metadata"]["labels"].items()
    ]
    assert scraped == ["headrace"]
    assert FOUND["Service", "headrace"]["metadata"]["labels"][wanted["jobLabel"]] == "headrace"
    assert wanted["endpoints"][0]["path"] == "/metrics"


def test_the_network_is_closed_but_for_those_who_need_it() -> None:
    policy = FOUND["NetworkPolicy", "headrace"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    ((rule),) = policy["ingress"]
    assert [next(iter(one)) for one in rule["from"]] == ["podSelector", "namespaceSelector"]
    assert rule["ports"] == [{"port": 32311}]
    open_ports = {one["port"] for one in policy["egress"][1]["ports"]}
    told = tomllib.loads(SETTINGS)
    addresses = [one["bootstrap_servers"] for one in told["clusters"].values()]
    for address in (*addresses, *told["zookeeper"]["servers"].split(",")):
        assert int(address.rpartition(":")[2]) in open_ports


def test_keda_scales_what_there_is_by_a_metric_that_there_is() -> None:
    found: Any = yaml.safe_load((ROOT / "deploy/kubernetes/keda.yaml").read_text(encoding="utf-8"))
    target = found["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) in FOUND
    exported = {one.name for metrics in described().values() for one in metrics}
    (trigger,) = found["spec"]["triggers"]
    assert set(re.findall(r"headrace_\w+", trigger["metadata"]["query"])) <= exported


def test_the_settings_class_is_the_one_that_serves() -> None:
    assert set(tomllib.loads(SETTINGS)) <= set(HeadraceSettings.model_fields)
