"""Usage and transfer cost by owner, datastream, topic and day.

Start with `bill.py`, which attributes measured sums to datastreams and owners.
`monitor/adapters/topic_usage.py` reads the sums without Pinot. `monitor.usage` may import `mirror` and
`pinot`.
"""
