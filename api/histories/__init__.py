"""Loads and latencies over time on /v1: what is asked, and how it is answered. Pure."""
