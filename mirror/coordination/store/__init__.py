"""State machine of node stores without ZooKeeper: pure, deterministic, driven by a log of commands.

`apply` of `machine.py` maps a state and a command to the next state and a result. Replicas that apply the
same commands have equal states. `codec.py` encodes commands and states, and `session.py` implements
`ports.NodeStore` on top of any log. Imports ports, model and errors. Read `commands.py`, then `machine.py`.
"""
