"""How a lane's position has moved: what its instance remembers of it, in bounded memory. Pure.

Imports nothing of the house. Read `history.py`, then `loss.py`. What state follows from it is decided in
`monitor/movement`.
"""
