"""Kafka's wire protocol, sans-io: bytes in, values and bytes out. No sockets, no clock, no logging.

Two hot formats are hand-written on memoryviews: record batches (`batches/`) and the Fetch and Produce
messages around them (`fetch`, `produce`). The rest of the protocol uses the message classes of kafka-python,
which only `control/` imports. All broker input is validated: a decoder raises CorruptData, never anything
else, and allocates no more than its input contains. Start with `batches/batch.py`;
docs/data-plane/batch-path.md follows a batch end to end.
"""
