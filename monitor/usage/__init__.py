"""Usage and transfer cost by owner, datastream, topic and day.

`bill.py` attributes measured sums to datastreams and owners, and is pure; start there.
`monitor/adapters/topic_usage.py` reads the sums without Pinot. `monitor.usage` may import `mirror` and
`pinot`.
"""
