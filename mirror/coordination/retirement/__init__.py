"""Unused topics: observations of topics, the decision whether one is unused, and its retirement."""
