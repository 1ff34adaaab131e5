"""Opening a connection: TCP, TLS, which versions the broker speaks, who we are."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from mirror.client.access import ClusterAccess
from mirror.client.connection import Connection
from mirror.client.event_loop import Loop
from mirror.client.transport import beside, connect
from mirror.errors import HeadraceError, NotAuthorized, TimedOut, Unreachable
from mirror.lane.flow import HeldTime
from mirror.lane.memory import SlabPool
from mirror.model.clusters import address_of
from mirror.protocol.codes import Code, error_of
from mirror.protocol.control import sasl
from mirror.protocol.control.cluster import BrokerFeatures, Endpoint, api_versions
from mirror.protocol.control.sasl import Exchange, SaslAccess

LARGEST_BATCH_BYTES: Final = 100 * 1024 * 1024
"""Default: brokers take no larger request (`socket.request.max.bytes`), so no larger batch."""
_AGAIN_AFTER: Final = 0.8
"""Part of an authentication's lifetime after which it is renewed (KIP-368)."""
_KERBEROS: Final = "GSSAPI"
_TICKET_ADVICE: Final = "does the key distribution centre of krb5.conf answer?"
_ADVICE: Final = "is there a Kafka broker, and does it expect TLS or a log-in at that port?"


LIVE: Final = "live"
BULK: Final = "bulk"
"""How roles of connections that copy begin."""


@dataclass(frozen=True, slots=True)
class ConnectionConfig:
    """What every connection of a cluster is opened with. `largest_batch_bytes`: of one that is read."""

    loop: Loop
    pool: SlabPool
    access: ClusterAccess
    client_id: str
    timeout_seconds: float
    throttling: HeldTime = field(default_factory=HeldTime)
    largest_batch_bytes: int = LARGEST_BATCH_BYTES


class ConnectionConfigs(NamedTuple):
    """How connections are opened, by the memory that answers are received into: for lanes that are up to
    date, for those that catch up, and for everything whose answers are used at once and never held."""

    live: ConnectionConfig
    bulk: ConnectionConfig
    aside: ConnectionConfig

    def for_role(self, role: str) -> ConnectionConfig:
        """By how the role begins."""
        if role.startswith(LIVE):
            return self.live
        return self.bulk if role.startswith(BULK) else self.aside


async def open_connection(config: ConnectionConfig, endpoint: Endpoint) -> Connection:
    """A connection that is ready for requests, within the time of one request.

    Raises Unreachable, TimedOut, NotAuthorized, Refused.
    """
    name = address_of(endpoint.host, endpoint.port)
    transport = await connect(config.loop, endpoint, config.access.tls, config.timeout_seconds)
    connection = Connection(config.loop, transport, config.pool, name, config.client_id, config.throttling)
    late = TimedOut(f"{name} accepts connections and does not answer", advice=_ADVICE)
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
        raise Unreachable(
            f"{connection.name} closed the connection without an answer", advice=_ADVICE
        ) from error


async def _ask_versions(connection: Connection, config: ConnectionConfig) -> BrokerFeatures:
    call = api_versions()
    features = await connection.call(call, config.timeout_seconds, call.versions[1])
    if features.error == Code.UNSUPPORTED_VERSION:
        features = await connection.call(call, config.timeout_seconds, 0)
    if features.error:
        raise error_of(features.error, f"asking {connection.name} for its versions")
    return features


async def _authenticate(
    connection: Connection, config: ConnectionConfig, access: SaslAccess, host: str
) -> None:
    """Run the exchange, and again before its lifetime is over."""
    timeout = config.timeout_seconds
    chosen = await connection.call(sasl.handshake(access.mechanism), timeout, urgent=True)
    if chosen.error:
        raise NotAuthorized(
            f"{connection.name} does not offer {access.mechanism}",
            advice=f"it offers {', '.join(chosen.mechanisms) or 'nothing'}",
        )
    exchange = await _begin(config, access, host)
    lifetime_ms = 0
    while not exchange.done:
        step = await connection.call(sasl.authenticate(exchange.next_bytes()), timeout, urgent=True)
        if step.error:
            raise error_of(step.error, f"authenticating as {access.username or 'ourselves'}", step.message)
        lifetime_ms = step.lifetime_ms
        exchange.receive(step.data)
    exchange.confirm()
    if lifetime_ms > 0:
        config.loop.call_later(
            lifetime_ms / 1000 * _AGAIN_AFTER,
            lambda: config.loop.spawn(_authenticate_again(connection, config, access, host)),
        )


async def _begin(config: ConnectionConfig, access: SaslAccess, host: str) -> Exchange:
    """Kerberos asks its own servers for a ticket first, and waits for them."""
    if access.mechanism != _KERBEROS:
        return Exchange(access, host)
    try:
        job = partial(Exchange, access, host)
        return await beside(config.loop, f"kerberos-{host}", job, config.timeout_seconds)
    except TimeoutError:
        raise TimedOut(f"no ticket for {access.service}@{host} in time", advice=_TICKET_ADVICE) from None


async def _authenticate_again(
    connection: Connection, config: ConnectionConfig, access: SaslAccess, host: str
) -> None:
    if not connection.is_open:
        return
    connection.hold()
    try:
        await _authenticate(connection, config, access, host)
    except HeadraceError as error:
        connection.close(error)
    else:
        connection.release()
