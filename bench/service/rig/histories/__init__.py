"""Rig of `service_histories`: servers, traffic with its true latency, receiver of alerts, faults and rows."""
