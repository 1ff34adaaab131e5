"""History of a lane's position as its instance remembers it, in bounded memory. Pure.

No imports from outside mirror. Read `history.py`, then `loss.py`. `monitor/movement` derives states from it.
"""
