"""Selected partitions that are not copied: paused, without a task, or excluded by a rule.

The leader tracks these partitions and their backlog. Imports coordination, ports, model, errors and
discovery. Read `partitions.py` first.
"""
