"""Threads of `headrace serve` outside mirror/: audits, synchronisation of consumer groups, and the watch of
unused topics. `headrace/wiring.py` starts them."""
