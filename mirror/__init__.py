"""The mirroring service and the language that every other wing speaks.

Decides which partition is copied by whom, and copies it. Imports no other wing.
Read `mirror/model` first, then `mirror/ports.py`, then `mirror/worker/process.py`.
"""
