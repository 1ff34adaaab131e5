"""Threads of `headrace serve` besides those of mirror/: audits, synchronisation of consumer groups, and the
watch of unused topics. `headrace/wiring.py` starts them."""
