"""Unused topics: observes topics, decides whether a topic is unused, and retires unused topics."""
