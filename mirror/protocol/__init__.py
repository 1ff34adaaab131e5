"""Kafka's wire protocol, sans-io: bytes in, values and bytes out. This package uses no sockets, no clock and
no logging.

The formats that matter for throughput are decoded by hand from memoryviews: record batches (`batches/`), and
Fetch and Produce messages (`fetch`, `produce`). The rest of the protocol uses the message classes of
kafka-python, which only `control/` imports. All broker input is validated: a decoder raises no error except
CorruptData, and allocates no more memory than its input requires. Start with `batches/batch.py`;
docs/data-plane/batch-path.md follows a batch end to end.
"""
