"""Consumer groups that follow their positions from the source of a datastream to its destination.

Read `decision.py`, the pure rules, then `follower.py`, which runs them. Imports translations, client,
protocol and model.
"""
