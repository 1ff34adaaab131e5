"""The rest of the protocol, through kafka-python's message classes: whatever is not sent per batch.

Each function makes a `Call`: what to ask, in which versions, and how to read the answer into values of
our own. Only this folder imports kafka-python (its messages and its sans-io SASL mechanisms), so that a
change of that library is felt nowhere else. Start with `call.py`.
"""
