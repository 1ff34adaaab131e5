"""Switch-over between the two clusters of a pair: sends requests to clusters and the service. Read `acts.py`
first.

The import rules of `headrace.copy` apply.
"""
