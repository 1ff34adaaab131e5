"""Shared parts of the endpoints of /v1/datastreams. Read answers.py first."""
