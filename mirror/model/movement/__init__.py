"""History of a lane's position, which its instance keeps in bounded memory. Pure; imports only modules of
`mirror`. Read `history.py`, then `loss.py`. `monitor/movement` derives the states of lanes from their
histories."""
