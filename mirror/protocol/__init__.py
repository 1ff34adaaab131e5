"""Kafka's bytes, sans-io: bytes in, values and bytes out. No sockets, no clock, no logging.

Two hot formats are written by hand on memoryviews: record batches (`batches/`) and the Fetch and Produce
messages around them (`fetch`, `produce`). Everything else of the protocol goes through the message classes
of kafka-python, which only `control/` imports. Whatever comes from a broker is checked before it is
believed: a decoder raises CorruptData, never anything else, and allocates no more than its input holds.
Start with `batches/batch.py`; docs/data-plane/batch-path.md follows a whole batch.
"""
