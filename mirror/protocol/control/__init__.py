"""Requests other than Fetch and Produce, encoded by kafka-python's message classes.

Each function returns a `Call`: the request, its supported versions, and a function that converts the response
into values of this package. Only this folder imports kafka-python (its messages and its sans-io SASL
mechanisms), so that changes in that library stay local. Start with `call.py`.
"""
