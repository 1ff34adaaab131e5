"""What the leader knows of partitions that are selected and that nobody copies: paused by a person, without
a task, or left out by a rule; and how far they are behind. Read `partitions.py`.

Imports coordination, ports, model and errors; of this room's neighbours the leader's picture of clusters.
"""
