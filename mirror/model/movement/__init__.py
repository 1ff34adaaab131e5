"""Positions of a lane over time, in bounded memory. Pure.

`monitor/movement` derives the states of lanes from it. Imports only modules of `mirror`. Start with
`history.py`, then read `loss.py`.
"""
