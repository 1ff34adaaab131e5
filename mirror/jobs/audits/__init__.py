"""Continuous audits of datastreams, by the instances that run their lanes."""
