"""Dry runs that the leader computes, at whichever instance a call arrives. Read `previews.py`."""
