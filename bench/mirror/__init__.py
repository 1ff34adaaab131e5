"""Measurements of copying, against other mirroring programs on the same clusters."""
