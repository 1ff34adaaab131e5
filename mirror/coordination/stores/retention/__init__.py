"""Shares of the groups in a folder of nodes, so that none empties it for the others. Read `shares.py`."""
