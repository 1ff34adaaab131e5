"""What an operator can set about alerts. Secrets are not among the settings: these say where a secret is."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AwareDatetime, Field, PlainSerializer, SecretStr, model_validator

from mirror.options import Seconds, Settings
from monitor.alerts.alert import ALERTNAME
from monitor.alerts.conditions import AlertPatience
from monitor.alerts.silence import Silence
from monitor.movement.summary import NEAR_SECONDS

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OURS: Final = {ALERTNAME, "severity", "service", "datastream", "cluster", "receiver"}
_ADDRESS: Final = re.compile(r"[^\s@<>,;\"]+@[^\s@<>,;\"]+")
_HEADER: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def without_secrets(url: SecretStr) -> str:
    """Return an address as it may be shown: user, path and query are masked, where they exist."""
    try:
        parts = urlsplit(url.get_secret_value())
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
        place = f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")
    except ValueError:  # it is no address, which the first message reports
        return str(url)
    is_plain = url.get_secret_value().rstrip("/") == place
    return place if is_plain else f"{place}/{url}" if host else str(url)


SecretUrl = Annotated[SecretStr, PlainSerializer(without_secrets, when_used="json")]
"""An address of which parts may be a secret: a token in its path, or a password before the host."""


class ReceiverSettings(Settings):
    """What all receivers have."""

    timeout_seconds: Seconds = 10.0
    """Longest time for one message."""
    most_retry_seconds: Seconds = 60.0
    """Longest pause between two attempts while it does not answer; the first is a second, each is twice the
    one before."""


class HttpReceiverSettings(ReceiverSettings):
    """One that is called by HTTP."""

    ca_file: str = ""
    """Authorities (PEM) of its certificate; empty: the machine's."""
    token_file: str = ""
    """A file with a bearer token, read for every message."""
    token_variable: str = ""
    """The variable of the environment with that token, in place of a file."""

    @model_validator(mode="after")
    def _one_token(self) -> HttpReceiverSettings:
        _one_of(self, "token")
        return self


class AlertmanagerSettings(HttpReceiverSettings):
    """An Alertmanager, called by its API v2. Name each of a cluster: alerts go to all of them, not through a
    load balancer."""

    url: SecretUrl
    """Such as `https://alertmanager:9093`, with the path prefix if it has one."""
    username: str = ""
    """For basic authentication."""
    password_file: str = ""
    """A file with that password, read for every message."""
    password_variable: str = ""
    """The variable of the environment with that password, in place of a file."""
    refresh_seconds: Seconds = 60.0
    """An alert that lasts is sent this often, and ends in Alertmanager when it was not sent for four times as
    long: if the monitor dies, no alert stays."""
    watchdog: bool = False
    """Send it `HeadraceWatchdog` too, which always fires: who is told when that ends (a dead man's switch)
    learns that no monitor runs."""

    @model_validator(mode="after")
    def _consistent(self) -> AlertmanagerSettings:
        _one_of(self, "password")
        has_password = bool(self.password_file or self.password_variable)
        if has_password != bool(self.username):
            raise ValueError("username goes together with password_file or password_variable")
        if self.username and (self.token_file or self.token_variable):
            raise ValueError("a token and a user name exclude each other")
        return self


class WebhookSettings(HttpReceiverSettings):
    """An address that takes POST: Slack and its like, which read `text`, or a program, which reads what
    Alertmanager's own webhooks send."""

    url: SecretUrl = SecretStr("")
    """Where to, if the address is no secret; only its host is shown."""
    url_file: str = ""
    """A file with the address, where who knows it may post; read for every message."""
    url_variable: str = ""
    """The variable of the environment with the address, in place of a file."""
    secret_file: str = ""
    """A file with the key of the signature; none: no signature."""
    secret_variable: str = ""
    """The variable of the environment with that key, in place of a file."""
    repeat_seconds: Seconds = 14_400.0
    """An alert that lasts is sent this often."""

    @model_validator(mode="after")
    def _consistent(self) -> WebhookSettings:
        _one_of(self, "secret")
        if sum(map(bool, (self.url.get_secret_value(), self.url_file, self.url_variable))) != 1:
            raise ValueError("one of url, url_file and url_variable is needed")
        return self


class MailSettings(ReceiverSettings):
    """Mail by SMTP."""

    host: str
    """The mail server."""
    port: int = Field(default=587, ge=1, le=65535)
    """Of the mail server; 465 is usual with `security = "tls"`."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """`none` sends everything as plain text, and is refused together with a password."""
    ca_file: str = ""
    """Authorities (PEM) of its certificate; empty: the machine's."""
    username: str = ""
    """Where the server wants to know who sends."""
    password_file: str = ""
    """A file with that user's password, read for every message."""
    password_variable: str = ""
    """The variable of the environment with that password, in place of a file."""
    sender: str
    """Address in `From`."""
    recipients: list[str] = Field(min_length=1)
    """Addresses in `To`."""
    repeat_seconds: Seconds = 14_400.0
    """An alert that lasts is sent this often."""

    @model_validator(mode="after")
    def _consistent(self) -> MailSettings:
        _one_of(self, "password")
        has_password = bool(self.password_file or self.password_variable)
        if has_password != bool(self.username):
            raise ValueError("username goes together with password_file or password_variable")
        if has_password and self.security == "none":
            raise ValueError("a password is not sent as plain text: set security")
        for address in (self.sender, *self.recipients):
            if not _ADDRESS.fullmatch(address) or _HEADER.search(address) or not address.isascii():
                raise ValueError(f"{address!r} is no plain mail address")
        return self


class SilenceSettings(Settings):
    """Alerts of the datastreams of that name are not sent for a while. `*` in it stands for any text, and
    `*` alone also for the alerts of the whole service. Read again while the monitor runs."""

    until: AwareDatetime
    """When that ends, with its zone: `2027-01-31T18:00:00Z`."""
    reason: str = ""
    """Why, for the log."""


class AlertSettings(Settings):
    """Whom the monitor calls, and when."""

    halted_after_seconds: float = Field(default=30.0, ge=0)
    """Something of a datastream is not copied for so much time before an alert says it."""
    unjudged_after_seconds: float = Field(default=600.0, ge=0)
    """The same where nobody can say whether a datastream meets its objective."""
    blind_after_seconds: float = Field(default=60.0, ge=0)
    """The same where the service or what measures it does not answer, so that nothing can be judged."""
    partitions_after_seconds: float = Field(default=60.0, ge=0)
    """The same where partitions stand still, have paused themselves, or wait for a cluster."""
    transaction_after_seconds: float = Field(default=900.0, ge=0)
    """The same where all that waits is hidden by an open transaction; brokers end one after
    `transaction.max.timeout.ms`, 15 minutes by default."""
    catching_up_after_seconds: float = Field(default=1_800.0, ge=0)
    """The same, as a warning, where partitions catch up after a pause, an outage or a creation."""
    loss_after_seconds: float = Field(default=20.0, ge=0)
    """The same where the source will delete records before they are copied."""
    loss_within_seconds: float = Field(default=NEAR_SECONDS, ge=0)
    """Such a loss is no alert while it is further away."""
    loss_least_share: float = Field(default=0.1, ge=0, le=1)
    """Nor while less than this share of what the source keeps waits."""
    receiver_after_seconds: float = Field(default=120.0, ge=0)
    """The same where a receiver takes nothing; the others are told."""
    resize_after_seconds: float = Field(default=600.0, ge=0)
    """The same where the load or its forecast needs more instances than stay."""
    resize_lead_seconds: float = Field(default=7_200.0, ge=0, le=604_800)
    """How long before the first hour that needs more instances that is an alert."""
    recovered_after_seconds: float = Field(default=180.0, ge=0)
    """An objective must be met for this time before the alert that it is missed is over; its incident stays
    open for `monitor.close_seconds`."""
    keep_seconds: float = Field(default=60.0, ge=0)
    """What is seen and not seen by turns is one alert, which is over when it was not seen for this time."""
    gather_seconds: float = Field(default=10.0, ge=0)
    """How long an alert waits for others that belong into the same message."""
    group_by: list[str] = Field(default=[ALERTNAME, "cluster"])
    """Labels whose values the alerts of one webhook's message or one mail have in common; Alertmanager groups
    by its own settings."""
    queue_alerts: int = Field(default=10_000, ge=1)
    """Alerts that are remembered for each receiver."""
    labels: dict[str, str] = Field(default_factory=dict)
    """More labels of every alert, such as `team` or `environment`."""
    runbook_url: str = ""
    """Address of an alert's page, with `{alertname}` in it; empty: its path in this documentation."""
    service_url: str = ""
    """Where people reach the service's REST, for links; empty: where the monitor does."""
    alertmanagers: dict[str, AlertmanagerSettings] = Field(default_factory=dict)
    webhooks: dict[str, WebhookSettings] = Field(default_factory=dict)
    mail: dict[str, MailSettings] = Field(default_factory=dict)
    silences: dict[str, SilenceSettings] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _labels_are_possible(self) -> AlertSettings:
        for name in (*self.labels, *self.group_by):
            if not _LABEL.fullmatch(name):
                raise ValueError(f"{name!r} is no name of a label: letters, digits and underscores")
        if taken := sorted(_OURS & self.labels.keys()):
            raise ValueError(f"labels: every alert has {', '.join(taken)} already")
        return self

    def patience(self) -> AlertPatience:
        """How long conditions last before they are alerts."""
        return AlertPatience(
            self.halted_after_seconds,
            self.unjudged_after_seconds,
            self.blind_after_seconds,
            self.keep_seconds,
            self.partitions_after_seconds,
            self.transaction_after_seconds,
            self.loss_after_seconds,
            self.loss_within_seconds,
            self.receiver_after_seconds,
            self.catching_up_after_seconds,
            self.recovered_after_seconds,
            self.loss_least_share,
            self.resize_after_seconds,
        )

    def silenced(self) -> list[Silence]:
        """What is silenced, ended silences included."""
        return [
            Silence(name, int(one.until.timestamp() * 1000), one.reason)
            for name, one in self.silences.items()
        ]


def _one_of(settings: Settings, what: str) -> None:
    """A secret has one place."""
    if getattr(settings, f"{what}_file") and getattr(settings, f"{what}_variable"):
        raise ValueError(f"{what}_file and {what}_variable exclude each other")
