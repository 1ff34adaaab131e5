"""Opens connections to brokers: TCP, TLS, API versions, authentication."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from mirror.client.access import ClusterAccess
from mirror.client.calls import make_call
from mirror.client.connection import Connection
from mirror.client.event_loop import Loop
from mirror.client.sockets import beside, connect
from mirror.errors import HeadraceError, NotAuthorized, TimedOut, Unreachable
from mirror.lane.flow import HeldTime
from mirror.lane.memory import BufferPool
from mirror.model.clusters import address_of
from mirror.protocol.codes import Code, error_of
from mirror.protocol.control import sasl
from mirror.protocol.control.cluster import BrokerFeatures, Endpoint, api_versions
from mirror.protocol.control.sasl import SaslAccess, SaslExchange

LARGEST_BATCH_BYTES: Final = 100 * 1024 * 1024
"""Default maximum size of a batch in bytes, from Kafka's default limit of requests.

Brokers accept no larger request by default (`socket.request.max.bytes`), so their logs have no larger batch.
"""
_AGAIN_AFTER: Final = 0.8
"""Share of the session lifetime after which this client reauthenticates (KIP-368)."""
_INCOMPLETE_SECONDS: Final = 0.1
"""Seconds between checks, before a reauthentication, whether an incomplete request is complete."""
_KERBEROS: Final = "GSSAPI"
_TICKET_ADVICE: Final = "check that the key distribution centre in krb5.conf responds"
_ADVICE: Final = "check that a Kafka broker listens there, and whether the port requires TLS or SASL"
_ADVICE_NO_SASL: Final = "the listener probably does not use SASL: check security.protocol and the port"
_ADVICE_TLS: Final = (
    "check that a Kafka broker listens there, and whether it requires SASL or a client certificate"
    " (certificate_file, key_file)"
)


LIVE: Final = "live"
BULK: Final = "bulk"
AHEAD: Final = "ahead"
"""Prefix of the roles of connections that fetch in advance."""


@dataclass(frozen=True, slots=True)
class ConnectionConfig:
    """Options for the connections to a cluster. `largest_batch_bytes`: maximum size of a fetched batch."""

    loop: Loop
    pool: BufferPool
    access: ClusterAccess
    client_id: str
    timeout_seconds: float
    throttling: HeldTime = field(default_factory=HeldTime)
    largest_batch_bytes: int = LARGEST_BATCH_BYTES


class ConnectionConfigs(NamedTuple):
    """Connection options for each memory pool. `live`: up-to-date lanes. `bulk`: lanes with a backlog.
    `ahead`: read-ahead of lanes with a backlog. `aside`: requests whose responses are processed at once."""

    live: ConnectionConfig
    bulk: ConnectionConfig
    ahead: ConnectionConfig
    aside: ConnectionConfig

    @classmethod
    def of_one(cls, config: ConnectionConfig) -> ConnectionConfigs:
        """Return the same options for all pools, for callers that copy no records."""
        return cls(config, config, config, config)

    def for_role(self, role: str) -> ConnectionConfig:
        """Return the options for a connection with this role."""
        if role.startswith(LIVE):
            return self.live
        if role.startswith(AHEAD):
            return self.ahead
        return self.bulk if role.startswith(BULK) else self.aside


async def open_connection(config: ConnectionConfig, endpoint: Endpoint) -> Connection:
    """Open a connection that is ready for requests.

    Raises Unreachable, TimedOut, NotAuthorized, Refused.
    """
    name = address_of(endpoint.host, endpoint.port)
    transport = await connect(config.loop, endpoint, config.access.tls, config.timeout_seconds)
    connection = Connection(config.loop, transport, config.pool, name, config.client_id, config.throttling)
    late = TimedOut(f"{name} accepts connections but does not respond", advice=_ADVICE)
    timer = config.loop.call_later(config.timeout_seconds, lambda: connection.close(late))
    try:
        connection.features = await _first_answer(connection, config)
        if config.access.sasl is not None:
            await _authenticate(connection, config, config.access.sasl, endpoint.host)
    except BaseException as error:
        connection.close(error if isinstance(error, HeadraceError) else None)
        raise
    finally:
        timer.cancel()
    return connection


async def _first_answer(connection: Connection, config: ConnectionConfig) -> BrokerFeatures:
    try:
        return await _ask_versions(connection, config)
    except TimedOut:
        raise
    except Unreachable as error:
        advice = _ADVICE if config.access.tls is None or config.access.has_certificate else _ADVICE_TLS
        raise Unreachable(
            f"{connection.name} closed the connection without a response", advice=advice
        ) from error


async def _ask_versions(connection: Connection, config: ConnectionConfig) -> BrokerFeatures:
    call = api_versions()
    features = await make_call(connection, call, config.timeout_seconds, call.versions[1])
    if features.error == Code.UNSUPPORTED_VERSION:
        features = await make_call(connection, call, config.timeout_seconds, 0)
    if features.error:
        raise error_of(features.error, f"ApiVersions request to {connection.name} failed")
    return features


async def _authenticate(
    connection: Connection, config: ConnectionConfig, access: SaslAccess, host: str
) -> None:
    """Authenticate, and schedule the reauthentication before the session expires."""
    timeout = config.timeout_seconds
    chosen = await make_call(connection, sasl.handshake(access.mechanism), timeout, urgent=True)
    if chosen.error:
        raise NotAuthorized(
            f"{connection.name} does not support SASL mechanism {access.mechanism}",
            advice=f"supported mechanisms: {', '.join(chosen.mechanisms)}"
            if chosen.mechanisms
            else _ADVICE_NO_SASL,
        )
    exchange = await _begin(config, access, host)
    lifetime_ms = 0
    while not exchange.is_done:
        step = await make_call(connection, sasl.authenticate(exchange.next_bytes()), timeout, urgent=True)
        if step.error:
            raise error_of(
                step.error, f"cannot authenticate as {access.username or 'this client'}", step.message
            )
        lifetime_ms = step.lifetime_ms
        exchange.receive(step.data)
    exchange.confirm()
    if lifetime_ms > 0:
        config.loop.call_later(
            lifetime_ms / 1000 * _AGAIN_AFTER,
            lambda: config.loop.spawn(_authenticate_again(connection, config, access, host)),
        )


async def _begin(config: ConnectionConfig, access: SaslAccess, host: str) -> SaslExchange:
    """Start the SASL exchange; for Kerberos in a separate thread, because it waits for a ticket."""
    if access.mechanism != _KERBEROS:
        return SaslExchange(access, host)
    try:
        job = partial(SaslExchange, access, host)
        return await beside(config.loop, f"kerberos-{host}", job, config.timeout_seconds)
    except TimeoutError:
        raise TimedOut(
            f"timeout waiting for a Kerberos ticket for {access.service}@{host}", advice=_TICKET_ADVICE
        ) from None


async def _authenticate_again(
    connection: Connection, config: ConnectionConfig, access: SaslAccess, host: str
) -> None:
    if not connection.is_open:
        return
    connection.hold()
    while connection.is_incomplete:  # its end follows, or the connection is closed
        await config.loop.sleep(_INCOMPLETE_SECONDS)
    try:
        await _authenticate(connection, config, access, host)
    except HeadraceError as error:
        connection.close(error)
    else:
        connection.release()
