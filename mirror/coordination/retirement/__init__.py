"""Unused topics: observation, the decision that a topic is unused, and the phases of its retirement."""
