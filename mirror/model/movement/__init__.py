"""How a lane's position has moved: what its instance remembers of it, in bounded memory. Pure.

Imports nothing of the house. What follows from it is decided in `monitor/movement`. Read `history.py`.
"""
