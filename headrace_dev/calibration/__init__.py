"""Measures the copy rate of one core of this host, with one worker between two temporary brokers.

May import stack/, headrace/copy and mirror. Start with `measure.py`.
"""
