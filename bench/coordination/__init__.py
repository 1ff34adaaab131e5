"""Measurements of the leader and its instances, with faults and with many datastreams."""
