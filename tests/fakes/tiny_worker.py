"""Worker process without an engine, which speaks the protocol and behaves as its second argument says.

obedient    starts, stops and shuts down as requested, and reports a rate for each lane: 10 bytes per second,
            or its group's share of a quota
crashing    exits with status 3 when asked to start lanes
poisoned    exits with status 3 when asked to start a lane of the group "bad"
leased      exits as if its lease had expired when asked to start lanes
endless     loops forever when asked to start lanes
deaf        never reads
stubborn    reads and ignores everything
departing   closes its end and stays alive
babbling    sends a malformed message
shy         exits with status 0 on Shutdown without sending anything
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterable, Iterator

from mirror.model.datastreams.lanes import LaneSpec, LaneStarted, LaneStopped
from mirror.worker.protocol import (
    EXIT_LEASE_OVER,
    LaneNews,
    LaneRate,
    LaneRates,
    Message,
    MessageReader,
    ShareQuotas,
    Shutdown,
    StartLanes,
    StopLanes,
    WorkerReady,
    encode_message,
)


def main(descriptor: int, behaviour: str) -> None:
    """Run until the other end closes."""
    channel = socket.socket(fileno=descriptor)
    if behaviour == "departing":
        channel.close()
    if behaviour == "babbling":
        channel.sendall(b"\x00\x00\x00\x02{}")
    if behaviour in {"deaf", "departing", "babbling"}:
        signal.pause()
    channel.sendall(encode_message(WorkerReady("interpreted")))
    lanes: list[LaneSpec] = []
    for message in _messages(channel):
        if behaviour != "stubborn":
            _obey(channel, message, behaviour, lanes)


def _messages(channel: socket.socket) -> Iterator[Message]:
    reader = MessageReader()
    while data := channel.recv(1 << 16):
        yield from reader.feed(data)


def _obey(channel: socket.socket, message: Message, behaviour: str, lanes: list[LaneSpec]) -> None:
    match message:
        case StartLanes(_, specs):
            if behaviour == "crashing" or (
                behaviour == "poisoned" and any(spec.key.group == "bad" for spec in specs)
            ):
                os._exit(3)
            if behaviour == "leased":
                os._exit(EXIT_LEASE_OVER)
            while behaviour == "endless":
                pass
            channel.sendall(encode_message(LaneNews(tuple(LaneStarted(spec.key, 7) for spec in specs))))
            _report(channel, [(spec, 10.0) for spec in specs])
            lanes.extend(specs)
        case ShareQuotas(shares):
            rates = dict(shares)
            _report(channel, [(spec, rates[spec.key.group]) for spec in lanes if spec.key.group in rates])
        case StopLanes(keys):
            channel.sendall(encode_message(LaneNews(tuple(LaneStopped(key, 9) for key in keys))))
        case Shutdown():
            os._exit(0)
        case _:
            return


def _report(channel: socket.socket, rates: Iterable[tuple[LaneSpec, float]]) -> None:
    found = tuple(LaneRate(spec.key, spec.source, rate, 1.0, 5, 50) for spec, rate in rates)
    channel.sendall(encode_message(LaneRates(found)))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
