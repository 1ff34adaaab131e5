"""Resident memory of one worker that drains a backlog, at 16 and at 200 busy partitions.

The worker is the process that copies; its parent in `headrace copy` only plans and reports. The figure is the
peak resident size (VmHWM). Cases: `BENCH_CASES=none-16,ten-200`. With `BENCH_FORMER`, that checkout runs too.
"""

from __future__ import annotations

from bench.mirror.rig.clusters import Topics, chosen, clusters
from bench.mirror.rig.data import Shape, write_topic
from bench.mirror.rig.engines import Work, formers, headrace
from bench.mirror.rig.watch import Watch
from mirror.protocol.batches.compression import Codec

_SHAPES = {
    f"{name}-{partitions}": Shape(f"{name}-{partitions}", codec, batch, records, partitions)
    for name, codec, batch, records in (
        ("none", Codec.NONE, 250, 1_000_000),
        ("lz4", Codec.LZ4, 500, 1_000_000),
        ("ten", Codec.LZ4, 10, 400_000),
    )
    for partitions in (16, 200)
}


def main() -> None:
    """Print a line for each topic shape."""
    print(f"{'engine':10}{'topic':10}{'partitions':>12}{'worker MiB':>12}{'with its parent':>17}")
    with clusters() as pair:
        for name in chosen(*_SHAPES):
            topic = write_topic(pair.source, _SHAPES[name])
            for make in (headrace, *formers().values()):
                engine = make(pair, Work(topic.name, topic.shape.codec))
                drain = Watch(pair).drain(engine, topic.shape.partitions, topic.records)
                print(
                    f"{engine.name:10}{name.split('-')[0]:10}{topic.shape.partitions:12}"
                    f"{drain.worker_mib:12.1f}{drain.resident_mib:17.1f}",
                    flush=True,
                )
                Topics(pair.target).delete("bench-")
            Topics(pair.source).delete("bench-")
