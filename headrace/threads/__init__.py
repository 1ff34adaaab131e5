"""Threads of `headrace serve` for audits, synchronisation of consumer groups, and the watch of unused topics.
`headrace/wiring.py` starts them."""
