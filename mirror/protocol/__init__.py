"""Kafka wire protocol without I/O: encodes requests and decodes responses.

The package uses no sockets and no clock.

Record batches (`batches/`) and Fetch and Produce messages (`fetch`, `produce`) determine the throughput, so
they are decoded by hand from memoryviews. All other messages use the classes of kafka-python, which only
`control/` imports. Input from brokers is not trusted: a decoder raises only CorruptData, and allocates no
more memory than its input requires. Start with `batches/batch.py`; docs/data-plane/batch-path.md follows a
batch end to end.
"""
