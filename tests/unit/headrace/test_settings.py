"""Test reading the settings from a file and the environment; every invalid setting is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_origin

import pytest
from pydantic import BaseModel

from api.settings import ApiSettings
from headrace.console.access.document import config_file
from headrace.settings import HeadraceSettings, load_settings
from headrace.wiring import build_instance, instance_name
from mirror.errors import ConfigError
from mirror.model.identifiers import InstanceName
from tests.unit.headrace.conftest import Write

SCRAM = '[clusters.a]\nbootstrap_servers = "a:1"\n[clusters.a.security]\n'
SCRAM += 'protocol = "SASL_SSL"\nmechanism = "SCRAM-SHA-256"\n'


def test_without_anything_the_defaults_fit_the_stack_on_this_machine() -> None:
    settings = load_settings()
    assert settings.zookeeper.servers == "127.0.0.1:2181"
    assert {alias: one.bootstrap_servers for alias, one in settings.clusters.items()} == {
        "source": "127.0.0.1:9092",
        "destination": "127.0.0.1:9192",
    }


def test_the_file_is_read_and_the_environment_wins(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write('[zookeeper]\nservers = "a:1"\nroot = "/here"\n[mirror.worker]\nprocesses = 3\n')
    monkeypatch.setenv("HEADRACE_ZOOKEEPER__SERVERS", "b:2")
    monkeypatch.setenv("HEADRACE_MIRROR__WORKER__RESTART_DELAY_SECONDS", "7.5")
    settings = load_settings(file)
    assert settings.zookeeper.servers == "b:2"
    assert settings.zookeeper.root == "/here"
    assert settings.mirror.worker.processes == 3
    assert settings.mirror.worker.restart_delay_seconds == 7.5


def test_a_cluster_of_the_file_may_be_changed_by_the_environment(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(
        '[clusters.source]\nbootstrap_servers = "a:1"\n[clusters.destination]\nbootstrap_servers = "b:1"\n'
    )
    monkeypatch.setenv("HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS", "c:1")
    settings = load_settings(file)
    assert settings.clusters["source"].bootstrap_servers == "c:1"
    assert settings.clusters["destination"].bootstrap_servers == "b:1"


def test_which_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert config_file() is None
    (tmp_path / "headrace.toml").write_text("")
    assert config_file() == Path("headrace.toml")
    monkeypatch.setenv("HEADRACE_CONFIG", "/named.toml")
    assert config_file() == Path("/named.toml")
    assert config_file(Path("/given.toml")) == Path("/given.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[zookeper]\n", "unknown setting zookeper (did you mean zookeeper?)"),
        (
            '[clusters.a]\nbootstrap_servers = "a:1"\nbootstrap_server = "a:1"\n',
            "unknown setting clusters.a.bootstrap_server (did you mean bootstrap_servers?)",
        ),
        ("[mirror]\nxyzzy = 1\n", "unknown setting mirror.xyzzy: "),
        ('[zookeeper]\nserver = "x"\n', "setting zookeeper.server"),
        ("[mirror.worker]\nthreads = 5\n", "setting mirror.worker.threads"),
        ("[mirror.worker]\nprocesses = -1\n", "mirror.worker.processes"),
        ('[mirror.worker]\nprocesses = "many"\n', "mirror.worker.processes"),
        ("[zookeeper]\nsession_timeout_seconds = 0\n", "zookeeper.session_timeout_seconds"),
        ('[zookeeper]\nroot = "headrace"\n', "root must"),
        ('[zookeeper]\nroot = "/headrace/"\n', "root must"),
        ("[clusters.a]\n", "clusters.a.bootstrap_servers"),
        (
            '[clusters.source]\nbootstrap_servers = "a:1"\nsecurity.mechanism = "PLAIN"\n',
            "clusters.source.security: ",
        ),
        (
            '[clusters.source]\nbootstrap_servers = "a:1"\nsecurity.protocol = "SASL_SSL"\n',
            "clusters.source.security: ",
        ),
        (
            '[clusters.source]\nbootstrap_servers = "a:1"\nsecurity.certificate_file = "x.pem"\n',
            "key_file",
        ),
        ("[monitor]\nwindow_seconds = 5\ninterval_seconds = 10\n", "window_seconds "),
        ("[monitor]\ninterval_seconds = 30\n", "monitor.interval_seconds: must be at most 15"),
        ("[api]\nport = 70000\n", "api.port"),
        ('[mirror]\nmetrics_cluster = "elsewhere"\n', "mirror.metrics_cluster"),
        ('[pmp]\noutput_cluster = "elsewhere"\n', "pmp.output_cluster"),
        ("[pmp.clusters.elsewhere]\n", "pmp.clusters"),
        ("not toml", "TOML"),
        ('[clusters.a]\nbootstrap_servers = "a:70000"\n', "clusters.a.bootstrap_servers"),
        ('[clusters.a]\nbootstrap_servers = "a"\n', "clusters.a.bootstrap_servers"),
        (SCRAM, "clusters.a.security: username"),
        (SCRAM + 'username = "me"\n', "clusters.a.security: username"),
        (SCRAM + 'password = "hush"\n', "clusters.a.security: username"),
        (
            '[clusters.a]\nbootstrap_servers = "a:1"\nsecurity.password = "hush"\n',
            "clusters.a.security: username",
        ),
    ],
)
def test_what_is_wrong_in_the_file_is_named(write: Write, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_settings(write(text))
    assert said in str(raised.value)


def numbers(model: type[BaseModel], *place: str) -> Iterator[tuple[str, ...]]:
    """Yield the settings of type float."""
    for name, field in model.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        inner = [one for one in kinds if isinstance(one, type) and issubclass(one, BaseModel)]
        if inner and get_origin(field.annotation) not in (list, dict):
            yield from numbers(inner[0], *place, name)
        elif float in kinds:
            yield (*place, name)


def test_no_number_is_without_end_and_no_time_longer_than_any_wait(write: Write) -> None:
    """One file has the same hostile value for all numbers, and each of them is named."""
    keys = sorted(".".join(place) for place in numbers(HeadraceSettings))
    times = [key for key in keys if key.endswith(("_seconds", "_hours"))]
    for value, given in (
        *((value, keys) for value in ("inf", "nan", "-inf")),
        *((value, times) for value in ("1e308", "1000000001")),
    ):
        with pytest.raises(ConfigError) as raised:
            load_settings(write("".join(f"{key} = {value}\n" for key in given)))
        assert [key for key in given if f"{key}: " not in str(raised.value)] == [], value


def test_everything_that_is_wrong_is_named_at_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_ZOOKEPER__SERVERS", "x")
    text = (
        '[clusters.a]\nbootstrap_server = "a:1"\n[clusters.b]\nbootstrap_servers = "b:1"\n'
        'security.mechanism = "SCRAM-SHA-256"\nsecurity.key_file = "k"\n[api]\nprot = 1\nport = 70000\n'
    )
    with pytest.raises(ConfigError) as raised:
        load_settings(write(text))
    first, *lines = str(raised.value).splitlines()
    assert first.startswith("6 settings ")
    for key, said in (
        ("HEADRACE_ZOOKEPER__SERVERS", "unknown"),
        ("clusters.a.bootstrap_servers", "missing"),
        ("clusters.a.bootstrap_server", "unknown"),
        ("clusters.b.security", "mechanism is"),
        ("clusters.b.security", "key_file"),
        ("clusters.b.security", "username"),
        ("api.prot", "unknown"),
        ("api.port", "65535"),
    ):
        assert any(re.search(rf"{re.escape(key)}\b", one) and said in one for one in lines), (key, said)


def test_every_reference_to_a_cluster_that_is_missing_is_named(write: Write) -> None:
    text = '[mirror]\nmetrics_cluster = "x"\n[pmp]\noutput_cluster = "y"\n[pmp.clusters.z]\n'
    with pytest.raises(ConfigError) as raised:
        load_settings(write(text))
    for named in ("mirror.metrics_cluster", "pmp.output_cluster", "pmp.clusters"):
        assert named in str(raised.value)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "picture.toml").write_bytes(b"\xff\xd8\xff\xe0")
    with pytest.raises(ConfigError, match=r"picture\.toml"):
        load_settings(tmp_path / "picture.toml")


@pytest.mark.parametrize("text", ["a = " + "9" * 10_000, "a = " + "[" * 5_000], ids=["number", "nesting"])
def test_a_file_beyond_what_can_be_read_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"long\.toml"):
        load_settings(tmp_path / "long.toml")


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("HEADRACE_ZOOKEPER__SERVERS", "x", "variable HEADRACE_ZOOKEPER__SERVERS"),
        ("HEADRACE_ZOOKEEPER_SERVERS", "x", "variable HEADRACE_ZOOKEEPER_SERVERS"),
        ("HEADRACE_ZOOKEEPER__SERVRES", "x", "setting zookeeper.servres"),
        ("HEADRACE_API__PORT", "many", "api.port"),
        ("HEADRACE_ZOOKEEPER", "a:1", "zookeeper"),
        ("HEADRACE_ZOOKEEPER__SERVERS", "zk:abc", "'zk:abc'"),
        ("HEADRACE_ZOOKEEPER__SERVERS", "", "zookeeper.servers: ''"),
        ("HEADRACE_ZOOKEEPER__SERVERS", "zk:2181,zk", "zookeeper.servers: 'zk'"),
        ("HEADRACE_MIRROR__WORKER", "5", "worker"),
    ],
)
def test_what_is_wrong_in_the_environment_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError) as raised:
        load_settings()
    assert said in str(raised.value)


def test_a_service_needs_the_clusters_that_it_writes_to(write: Write) -> None:
    settings = load_settings(write('[clusters.a]\nbootstrap_servers = "a:1"\n'))
    with pytest.raises(ConfigError, match=r"mirror\.destination_cluster\b.*'destination'.*\ba\)"):
        build_instance(settings, None, InstanceName("one"), "127.0.0.1:1")


def test_a_cluster_may_be_an_address_instead_of_an_alias(write: Write) -> None:
    file = write(
        '[clusters.a]\nbootstrap_servers = "a:1"\n'
        '[mirror]\ndestination_cluster = "a:1"\nmetrics_cluster = "a"\n'
        '[pmp]\noutput_cluster = "a"\n[pmp.clusters.a]\n'
    )
    assert load_settings(file).mirror.destination_cluster == "a:1"


@pytest.mark.parametrize("name", ["missing.toml", "."])
def test_a_file_that_cannot_be_read_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        load_settings(Path(name))


def test_secrets_are_never_shown(write: Write) -> None:
    file = write(
        '[clusters.source]\nbootstrap_servers = "a:1"\n[clusters.destination]\nbootstrap_servers = "b:1"\n'
        '[clusters.source.security]\nprotocol = "SASL_PLAINTEXT"\nmechanism = "PLAIN"\nusername = "me"\n'
        'password = "hush hush"\n'
    )
    settings = load_settings(file)
    security = settings.clusters["source"].security
    assert security.password.get_secret_value() == "hush hush"
    for shown in (str(settings), repr(settings), str(settings.model_dump(mode="json"))):
        assert "hush" not in shown


def test_a_wrong_secret_is_not_shown_either(write: Write) -> None:
    file = write(
        '[clusters.source]\nbootstrap_servers = "a:1"\n[clusters.source.security]\npassword = ["hush"]\n'
    )
    with pytest.raises(ConfigError) as raised:
        load_settings(file)
    assert "hush" not in str(raised.value)


def test_settings_do_not_change() -> None:
    settings: HeadraceSettings = load_settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.zookeeper.servers = "x"  # type: ignore[misc]


def test_an_instance_has_the_same_name_after_each_restart(write: Write) -> None:
    settings = load_settings()
    assert instance_name(settings, 32311) == instance_name(settings, 32311)
    assert instance_name(settings, 32311).endswith(":32311")
    assert instance_name(settings, 32312) != instance_name(settings, 32311)
    with pytest.raises(ConfigError, match=r"mirror\.instance_name"):
        instance_name(settings, 0)
    named = load_settings(write('[mirror]\ninstance_name = "east-1"\n'))
    assert instance_name(named, 0) == "east-1"


def test_a_name_that_was_given_is_the_name(write: Write) -> None:
    settings = load_settings(write('[mirror]\ninstance_name = "east-1"\n'))
    assert instance_name(settings, 32311) == "east-1"


@pytest.mark.parametrize("alias", ["eu:west", "a,b"])
def test_an_alias_that_reads_as_an_address_is_refused(write: Write, alias: str) -> None:
    path = write(f'[clusters."{alias}"]\nbootstrap_servers = "host:9092"\n')
    with pytest.raises(ConfigError, match=f"'{alias}' .*address"):
        load_settings(path)


def test_an_offset_moves_the_ports_of_defaults_only(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write('[clusters.source]\nbootstrap_servers = "h:9092"\n[pinot]\nbroker = "p:9001"\n')
    monkeypatch.setenv("HEADRACE_PORT_OFFSET", "100")
    settings, of_file = load_settings(), load_settings(file)
    assert settings.clusters["source"].bootstrap_servers == "127.0.0.1:9192"
    assert settings.clusters["destination"].bootstrap_servers == "127.0.0.1:9292"
    assert not settings.uses_zookeeper
    assert not of_file.uses_zookeeper
    assert settings.api.port == ApiSettings().port + 100
    assert settings.pinot.controller == "127.0.0.1:9100"
    assert of_file.clusters["source"].bootstrap_servers == "h:9092"
    assert of_file.pinot.broker == "p:9001"
    monkeypatch.setenv("HEADRACE_API__PORT", "7")
    assert load_settings().api.port == 7
    assert load_settings(write('[zookeeper]\nroot = "/here"\n')).zookeeper.servers == "127.0.0.1:2281"
    monkeypatch.setenv("HEADRACE_ZOOKEEPER__ROOT", "/there")
    assert load_settings().zookeeper.servers == "127.0.0.1:2281"


@pytest.mark.parametrize(
    ("document", "variables", "is_used"),
    [
        ("", {}, False),
        ("[mirror]\n", {}, False),
        ("[zookeeper]\n", {}, True),
        ('[zookeeper]\nservers = "zk:2181"\n', {}, True),
        ("[zookeeper.security]\ntls = true\n", {}, True),
        ("", {"HEADRACE_ZOOKEEPER__SERVERS": "zk:2181"}, True),
        ("", {"HEADRACE_ZOOKEEPER__ROOT": "/r"}, True),
        ("", {"HEADRACE_PORT_OFFSET": "10"}, False),
    ],
)
def test_any_key_of_zookeeper_chooses_it(
    write: Write, monkeypatch: pytest.MonkeyPatch, document: str, variables: dict[str, str], is_used: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert load_settings(write(document)).uses_zookeeper is is_used


@pytest.mark.parametrize("text", ["many", "1.5", "99999"])
def test_an_offset_that_gives_no_port_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PORT_OFFSET", text)
    with pytest.raises(ConfigError):
        load_settings()
