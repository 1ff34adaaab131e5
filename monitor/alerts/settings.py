"""Settings of alerts. They contain no secrets, only the names of files or environment variables with
secrets."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AwareDatetime, Field, PlainSerializer, SecretStr, model_validator

from mirror.options import DerivedSettings, Seconds, Settings
from monitor.alerts.alert import ALERTNAME
from monitor.alerts.catalogue import AlertPatience, AlertTimes
from monitor.alerts.silence import Silence

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OURS: Final = {ALERTNAME, "severity", "service", "datastream", "cluster", "receiver", "topic"}
_ADDRESS: Final = re.compile(r"[^\s@<>,;\"]+@[^\s@<>,;\"]+")
_HEADER: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def without_secrets(url: SecretStr) -> str:
    """Return a URL in which user, path and query are masked."""
    try:
        parts = urlsplit(url.get_secret_value())
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        place = f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")
    except ValueError:  # an invalid URL; sending the first message reports it
        return str(url)
    is_plain = url.get_secret_value().rstrip("/") == place
    return place if is_plain else f"{place}/{url}" if host else str(url)


SecretUrl = Annotated[SecretStr, PlainSerializer(without_secrets, when_used="json")]
"""URL that may contain a secret: a token in its path, or a password before the host."""


class ReceiverSettings(Settings):
    """Settings common to all receivers."""

    timeout_seconds: Seconds = 10.0
    """Maximum time to send one message."""
    most_retry_seconds: Seconds = 60.0
    """Maximum interval between two attempts while the receiver does not respond. The interval starts at one
    second, and doubles with each attempt."""


class HttpReceiverSettings(ReceiverSettings):
    """Settings common to all receivers called over HTTP."""

    ca_file: str = ""
    """PEM file of trusted certificate authorities (default: the system's)."""
    token_file: str = ""
    """File with a bearer token, read for every message."""
    token_variable: str = ""
    """Environment variable with the bearer token, instead of a file."""

    @model_validator(mode="after")
    def _one_token(self) -> HttpReceiverSettings:
        _one_of(self, "token")
        return self


class AlertmanagerSettings(HttpReceiverSettings):
    """An Alertmanager, called over its API v2. Configure every member of a cluster: alerts must reach every
    member and must not go through a load balancer."""

    url: SecretUrl
    """Base URL such as `https://alertmanager:9093`, including the path prefix if Alertmanager has one."""
    username: str = ""
    """User name for basic authentication."""
    password_file: str = ""
    """File with the password of the user, read for every message."""
    password_variable: str = ""
    """Environment variable with the password of the user, instead of a file."""
    refresh_seconds: Seconds = 60.0
    """Interval at which a firing alert is sent again. Alertmanager resolves an alert after four intervals
    without a refresh, so alerts of a monitor that no longer runs are resolved."""
    watchdog: bool = False
    """Send the alert `HeadraceWatchdog`, which fires while a monitor runs, for a dead man's switch."""

    @model_validator(mode="after")
    def _consistent(self) -> AlertmanagerSettings:
        _one_of(self, "password")
        has_password = bool(self.password_file or self.password_variable)
        if has_password != bool(self.username):
            raise ValueError("username requires password_file or password_variable, and vice versa")
        if self.username and (self.token_file or self.token_variable):
            raise ValueError("a token and username are mutually exclusive")
        return self


class WebhookSettings(HttpReceiverSettings):
    """A URL that accepts POST requests. The receiver is a chat service such as Slack, which shows `text`, or
    a program that accepts the format of Alertmanager's webhooks."""

    url: SecretUrl = SecretStr("")
    """URL to post to, if it is not a secret. Only its host is shown."""
    url_file: str = ""
    """File with the URL, if it is a secret. Read for every message."""
    url_variable: str = ""
    """Environment variable with the URL, instead of a file."""
    secret_file: str = ""
    """File with the signing key. If empty, messages are not signed."""
    secret_variable: str = ""
    """Environment variable with the signing key, instead of a file."""
    repeat_seconds: Seconds = 14_400.0
    """Interval at which a firing alert is sent again."""

    @model_validator(mode="after")
    def _consistent(self) -> WebhookSettings:
        _one_of(self, "secret")
        if sum(map(bool, (self.url.get_secret_value(), self.url_file, self.url_variable))) != 1:
            raise ValueError("exactly one of url, url_file and url_variable is required")
        return self


class MailSettings(ReceiverSettings):
    """Mail sent over SMTP."""

    host: str
    """Host of the mail server."""
    port: int = Field(default=587, ge=1, le=65535)
    """Port of the mail server. Usually 465 with `security = "tls"`."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """Encryption of the connection. `none` sends plain text, and cannot be combined with a password."""
    ca_file: str = ""
    """PEM file of trusted certificate authorities (default: the system's)."""
    username: str = ""
    """User name, if the server requires authentication."""
    password_file: str = ""
    """File with the password of the user, read for every message."""
    password_variable: str = ""
    """Environment variable with the password of the user, instead of a file."""
    sender: str
    """Address in the `From` header."""
    recipients: list[str] = Field(min_length=1)
    """Addresses in the `To` header."""
    repeat_seconds: Seconds = 14_400.0
    """Interval at which a firing alert is sent again."""

    @model_validator(mode="after")
    def _consistent(self) -> MailSettings:
        _one_of(self, "password")
        has_password = bool(self.password_file or self.password_variable)
        if has_password != bool(self.username):
            raise ValueError("username requires password_file or password_variable, and vice versa")
        if has_password and self.security == "none":
            raise ValueError("a password requires encryption: set security to starttls or tls")
        for address in (self.sender, *self.recipients):
            if not _ADDRESS.fullmatch(address) or _HEADER.search(address) or not address.isascii():
                raise ValueError(f"{address!r} is not a plain mail address")
        return self


class SilenceSettings(Settings):
    """Suppresses the alerts of datastreams with a matching name until a given time. `*` matches any text; the
    pattern `*` also matches alerts of the whole service. Changes take effect without a restart."""

    until: AwareDatetime
    """End of the silence, with its time zone: `2027-01-31T18:00:00Z`."""
    reason: str = ""
    """Reason for the silence; written to the log."""


class AlertSettings(DerivedSettings, AlertTimes):
    """Settings of alerts: when they fire, their content, and their receivers."""

    resize_lead_seconds: float = Field(default=7_200.0, ge=0, le=604_800)
    """Time by which HeadraceResizeRecommended fires before the first hour that requires more instances."""
    gather_seconds: float = Field(default=10.0, ge=0)
    """Time by which a new alert is delayed, so that several alerts can be sent in one message."""
    group_by: list[str] = Field(default=[ALERTNAME, "cluster"])
    """Labels by which alerts are grouped into one webhook message or one mail. Alertmanager has its own
    grouping."""
    queue_alerts: int = Field(default=10_000, ge=1)
    """Maximum number of alerts in the queue of each receiver."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Additional labels of every alert, such as `team` or `environment`."""
    runbook_url: str = ""
    """Address of the runbook of an alert, with the placeholder `{alertname}`. If empty, alerts contain the
    path of the page in this documentation."""
    service_url: str = ""
    """Base URL of the service's REST interface for links in alerts. If empty, the URL that the monitor
    uses."""
    alertmanagers: dict[str, AlertmanagerSettings] = Field(default_factory=dict)
    webhooks: dict[str, WebhookSettings] = Field(default_factory=dict)
    mail: dict[str, MailSettings] = Field(default_factory=dict)
    silences: dict[str, SilenceSettings] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _labels_are_possible(self) -> AlertSettings:
        for name in (*self.labels, *self.group_by):
            if not _LABEL.fullmatch(name):
                raise ValueError(
                    f"invalid label name {name!r}: use letters, digits and underscores, not a digit first"
                )
        if taken := sorted(_OURS & self.labels.keys()):
            raise ValueError(f"labels: reserved for Headrace: {', '.join(taken)}; choose other names")
        return self

    def patience(self) -> AlertPatience:
        """Return how long the condition of each alert must last before the alert fires."""
        return AlertPatience(**self.values(), late_seconds=self.halted_after_seconds)

    def silenced(self) -> list[Silence]:
        """Return the configured silences, including expired silences."""
        return [
            Silence(name, int(silence.until.timestamp() * 1000), silence.reason)
            for name, silence in self.silences.items()
        ]


def _one_of(settings: Settings, field: str) -> None:
    """Raise ValueError if a secret is configured both as a file and as an environment variable."""
    if getattr(settings, f"{field}_file") and getattr(settings, f"{field}_variable"):
        raise ValueError(f"{field}_file and {field}_variable are mutually exclusive")
