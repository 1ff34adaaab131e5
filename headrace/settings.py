"""Settings of all packages, read from one TOML file and the environment.

The environment (`HEADRACE_ZOOKEEPER__SERVERS=…`, two underscores between levels) overrides the
file (`--config`, `HEADRACE_CONFIG`, `./headrace.toml`), which overrides the defaults. The defaults
match the local servers of `headrace-dev stack up`. Unknown keys, invalid values and contradictions raise
ConfigError with the full name of the key.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from api.settings import ApiSettings
from assigner.settings import AssignerSettings
from headrace.console.access.caller import services_at
from headrace.console.access.document import NOT_SETTINGS, PREFIX, port_offset, read_document
from headrace.console.settings import ClientSettings
from mirror.errors import ConfigError, HeadraceError
from mirror.jobs.dr.settings import PairSettings
from mirror.model.clusters import address_of, bootstrap_servers, is_address, server_addresses
from mirror.options import Settings, validation_text
from mirror.settings import CoordinationSettings, KafkaCluster, MirrorSettings, ZooKeeperSettings
from mirror.wording import counted
from monitor.settings import MonitorSettings
from pinot.settings import PinotSettings
from pmp.settings import PmpSettings

DEFAULT_CLUSTERS: Final = {
    "source": {"bootstrap_servers": "127.0.0.1:9092"},
    "destination": {"bootstrap_servers": "127.0.0.1:9192"},
}
"""Default clusters if the file defines no clusters. Environment variables can still override the settings of
these clusters."""
_BY_ALIAS: Final = (("clusters",), ("pmp", "clusters"))
"""Sections with one subsection per cluster or alias."""
_SHIFTED: Final = (("zookeeper", "servers"), ("pinot", "controller"), ("pinot", "broker"), ("api", "port"))
"""Keys whose defaults are local addresses or ports, except clusters."""


class StoreKind(StrEnum):
    """Kinds of coordination stores."""

    EMBEDDED = "embedded"
    """A file on this machine, for a service with a single instance."""
    KAFKA = "kafka"
    """Topics of the cluster `coordination.cluster`."""
    ZOOKEEPER = "zookeeper"


class LogSettings(Settings):
    """Format and level of logs."""

    format: Literal["auto", "text", "json"] = "auto"
    """Format of log lines. `auto`: text on a terminal, otherwise JSON."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level to log."""


class _Variables(EnvSettingsSource):
    """Settings source that reads environment variables.

    Cluster names in variables are mapped to aliases: `US_EAST_1` refers to `us-east-1`.
    """

    def __init__(self, settings_cls: type[BaseSettings], document: Mapping[str, Any]) -> None:
        super().__init__(settings_cls)
        self._document = document

    def __call__(self) -> dict[str, Any]:
        """Return the settings in environment variables. Raises ConfigError if a variable may refer to several
        aliases."""
        found = super().__call__()
        for path in _BY_ALIAS:
            *parents, last = path
            level: Any = found
            known: Any = self._document
            for key in parents:
                level = level.get(key, {}) if isinstance(level, dict) else {}
                known = known.get(key, {}) if isinstance(known, Mapping) else {}
            named = level.get(last) if isinstance(level, dict) else None
            aliases = known.get(last) if isinstance(known, Mapping) else None
            if isinstance(named, dict) and isinstance(aliases, Mapping):
                level[last] = {_alias_of(name, aliases, path): given for name, given in named.items()}
        return found


def _alias_of(name: str, aliases: Iterable[str], path: Sequence[str]) -> str:
    """Return the cluster alias to which a name in an environment variable refers.

    If no alias matches, returns the name itself, because the cluster is defined only in the environment.
    """
    matching = [alias for alias in aliases if as_variable(alias) == as_variable(name)]
    if len(matching) > 1:
        raise ConfigError(
            f"environment: the name {as_variable(name).upper()} is ambiguous: it may refer to"
            f" {' or '.join(map(repr, sorted(matching)))} in {'.'.join(path)}",
            advice="rename one of these aliases, or use password_file instead of variables",
        )
    return matching[0] if matching else name


def as_variable(alias: str) -> str:
    """Return an alias in the form that environment variables contain, but in lower case."""
    return alias.lower().replace("-", "_").replace(".", "_")


class HeadraceSettings(BaseSettings):
    """Root of the settings, with one section per package."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", frozen=True, extra="forbid"
    )

    clusters: dict[str, KafkaCluster]
    """Kafka clusters by the alias that datastreams use."""
    zookeeper: ZooKeeperSettings = ZooKeeperSettings()
    """Settings of ZooKeeper. If any key of this section is set, the service uses ZooKeeper. If neither this
    section nor `coordination.cluster` is set, the service is a single instance with an embedded store in
    `mirror.state_directory`."""
    coordination: CoordinationSettings = CoordinationSettings()
    mirror: MirrorSettings = MirrorSettings()
    pinot: PinotSettings = PinotSettings()
    pmp: PmpSettings = PmpSettings()
    api: ApiSettings = ApiSettings()
    monitor: MonitorSettings = MonitorSettings()
    assigner: AssignerSettings = AssignerSettings()
    logging: LogSettings = LogSettings()
    commands: ClientSettings = ClientSettings()
    dr: dict[str, PairSettings] = {}
    """Pairs of clusters that `headrace dr` switches over, by name."""

    @model_validator(mode="after")
    def _clusters_exist(self) -> HeadraceSettings:
        """Check that every cluster to which a key refers is configured, unless the key has its default."""
        wrong: list[HeadraceError] = []
        for alias, cluster in self.clusters.items():
            if is_address(alias):
                advice = "use an alias without colons and commas"
                wrong.append(ConfigError(f"clusters: alias {alias!r} looks like an address", advice=advice))
            with _noted(wrong):
                bootstrap_servers(f"clusters.{alias}.bootstrap_servers", cluster.bootstrap_servers)
        with _noted(wrong):
            server_addresses("zookeeper.servers", self.zookeeper.servers)
        for section, values in (("mirror", self.mirror), ("pmp", self.pmp)):
            for key in values.model_fields_set & {"destination_cluster", "metrics_cluster", "output_cluster"}:
                with _noted(wrong):
                    self.check_cluster(f"{section}.{key}", getattr(values, key))
        with _noted(wrong):
            self._check_store()
        for alias in self.pmp.clusters if "clusters" in self.pmp.model_fields_set else ():
            with _noted(wrong):
                self.check_cluster("pmp.clusters", alias)
        for name, pair in self.dr.items():
            for key in ("primary", "standby"):
                with _noted(wrong):
                    self.check_cluster(f"dr.{name}.{key}", getattr(pair, key))
        if wrong:
            raise all_of(wrong)
        return self

    def _check_store(self) -> None:
        """Raise ConfigError if several coordination stores are configured, or if the configured store is
        incomplete."""
        coordination = self.coordination
        if not coordination.cluster:
            defaults = CoordinationSettings()
            keys = (key for key, value in coordination if value != getattr(defaults, key))
            if (key := next(keys, None)) is not None:
                raise ConfigError(
                    f"coordination.{key}: no effect without coordination.cluster",
                    advice="set coordination.cluster to an alias of [clusters], or remove [coordination]",
                )
            return
        self.check_cluster("coordination.cluster", coordination.cluster)
        if "zookeeper" in self.model_fields_set:
            raise ConfigError(
                "coordination.cluster and zookeeper are both set, but a service has only one store",
                advice="remove one of the two sections; `headrace state export` and `import` move the state",
            )

    @property
    def store(self) -> StoreKind:
        """Kind of the configured coordination store."""
        if self.coordination.cluster:
            return StoreKind.KAFKA
        return StoreKind.ZOOKEEPER if "zookeeper" in self.model_fields_set else StoreKind.EMBEDDED

    @property
    def uses_zookeeper(self) -> bool:
        """True if the state of the service is in ZooKeeper."""
        return self.store is StoreKind.ZOOKEEPER

    def service_address(self, at: str = "") -> str:
        """Return the addresses of the service for commands, separated by commas. Raises InvalidRequest.

        The addresses are `at`, by default the configured addresses. Addresses without a scheme get `https://`
        if the settings contain a certificate or a CA file.
        """
        given = at or ",".join(self.commands.addresses) or address_of(self.api.host, self.api.port)
        client = self.commands
        is_tls = bool(self.api.tls.certificate_file or client.ca_file or client.certificate_file)
        return services_at(given, is_tls=is_tls)

    def check_cluster(self, key: str, cluster: str) -> None:
        """Raise ConfigError unless `cluster` is a known alias or an address."""
        if cluster not in self.clusters and ":" not in cluster:
            known = ", ".join(sorted(self.clusters))
            raise ConfigError(
                f"{key}: unknown cluster {cluster!r} (known: {known})",
                advice="add it under [clusters] or use host:port",
            )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Give the environment precedence over the settings file.

        The content of the file arrives as constructor arguments.
        """
        document = init_settings() if isinstance(init_settings, InitSettingsSource) else {}
        return _Variables(settings_cls, document), init_settings


def load_settings(path: Path | None = None) -> HeadraceSettings:
    """Read the settings from the file and the environment. Raises ConfigError with every invalid key."""
    document = _with_ports_shifted(read_document(path))
    wrong = _unknown_variables()
    try:
        settings = HeadraceSettings(**document)
    except ValidationError as error:
        problems = [ConfigError(_sentence(problem)) for problem in error.errors()]
        raise all_of([*wrong, *problems], "headrace config example lists every key") from error
    except SettingsError as error:
        problem = ConfigError(f"environment: {error}", advice="separate levels with two underscores")
        raise all_of([*wrong, problem]) from error
    if wrong:
        raise all_of(wrong)
    return settings


def _with_ports_shifted(document: Mapping[str, Any]) -> dict[str, Any]:
    """Add default clusters and apply the port offset to a settings document. Raises ConfigError.

    If the document defines no clusters, the default clusters are added. If a port offset is set, it is added
    to all default local addresses.
    """
    whole: dict[str, Any] = {"clusters": DEFAULT_CLUSTERS, **document}
    offset = port_offset()
    if not offset:
        return whole
    if "clusters" not in document:
        whole["clusters"] = {
            alias: {key: _shifted(value, offset) for key, value in cluster.items()}
            for alias, cluster in DEFAULT_CLUSTERS.items()
        }
    is_given = "zookeeper" in document or any(name.startswith(f"{PREFIX}ZOOKEEPER__") for name in os.environ)
    for section, key in _SHIFTED if is_given else _SHIFTED[1:]:  # a default must not choose the store
        model = HeadraceSettings.model_fields[section].annotation
        given = whole.get(section, {})
        if isinstance(model, type) and issubclass(model, BaseModel) and isinstance(given, dict):
            default = model.model_fields[key].get_default()
            whole[section] = {key: _shifted(default, offset)} | given
    return whole


def _shifted(address: str | int, offset: int) -> str | int:
    """Add the offset to a port or to the port of an address `host:port`."""
    if isinstance(address, int):
        return address + offset
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + offset}"


def _unknown_variables() -> list[HeadraceError]:
    sections = {name.upper() for name in HeadraceSettings.model_fields}
    return [
        ConfigError(
            f"unknown variable {variable}{_suggestion(section, sections)}",
            advice="separate levels with two underscores",
        )
        for variable in os.environ
        if variable.startswith(PREFIX) and variable not in NOT_SETTINGS
        if (section := variable.removeprefix(PREFIX).partition("__")[0]) not in sections
    ]


@contextmanager
def _noted(wrong: list[HeadraceError]) -> Iterator[None]:
    try:
        yield
    except HeadraceError as error:
        wrong.append(error)


def all_of(wrong: Sequence[HeadraceError], advice: str = "") -> ConfigError:
    """Combine errors into one, whose message has a line for each."""
    lines = [str(error) for error in wrong]
    if len(lines) == 1:
        return ConfigError(lines[0], advice=advice)
    return ConfigError(
        "\n  ".join([f"{counted(len(lines), 'setting is', 'settings are')} invalid", *lines]), advice=advice
    )


def _sentence(problem: Mapping[str, Any]) -> str:
    key = ".".join(str(part) for part in problem["loc"]) or "settings"
    if problem["type"] == "extra_forbidden":
        *parents, last = problem["loc"]
        return f"unknown setting {key}{_suggestion(str(last), _keys_of(parents))}"
    if problem["type"] == "missing":
        return f"{key} is missing"
    return f"{key}: {validation_text(problem)}"


def _keys_of(location: Iterable[str | int]) -> Iterable[str]:
    """Return the valid keys of a settings table."""
    model: type[BaseModel] = HeadraceSettings
    for part in location:
        if (field := model.model_fields.get(str(part))) is not None:  # None: an alias or another name
            model = model_of(field) or model
    return model.model_fields


def _suggestion(given: str, known: Iterable[str]) -> str:
    """Return "did you mean …?" with the most similar known key; empty if none is similar."""
    similar = get_close_matches(given, known, n=1)
    return f" (did you mean {similar[0]}?)" if similar else ""


def model_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the settings class of a TOML table, or of the values of a mapping; None for a plain value."""
    for candidate in (field.annotation, *get_args(field.annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
