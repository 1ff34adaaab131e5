"""Handlers of fetch and produce responses, rejected batches, open transactions and stalls."""
